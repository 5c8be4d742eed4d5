/* The smallest program: which library is linked. */
#include <stdio.h>

#include <recollect/recollect.h>

int main(void)
{
    printf("recollect %s\n", recollect_version());
    return 0;
}
