/* Part of the shared library that the tests of script/mutate link.
 *
 * The library's search for a method is led here, and from here to the test, if it has a function of its own. */
#include "cil/methods.h"

rc_status __real_rc_method_find(const char *name, const rc_method **method);
__attribute__((weak)) rc_status __wrap_rc_method_find(const char *name, const rc_method **method);

rc_status __wrap_rc_method_find(const char *name, const rc_method **method)
{
    return __real_rc_method_find(name, method);
}
