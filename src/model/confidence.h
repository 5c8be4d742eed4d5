/* How far the probabilities of a model can be believed. A net is surer of its answers than it is right, above all one
 * that was trained on few images. Logits that are divided by a temperature T before the softmax keep their order, and T
 * can be measured: of the temperatures 2^(k/8), k = -8 .. 40, it is the one for which
 *
 *     sum_i CE(softmax(z_i / T), y_i)  +  4 (ln T - ln 2)^2
 *
 * is smallest, z_i and y_i logits and labels of images that the model was not trained on. The second term keeps a
 * handful of images from saying much: logits of models of few images have been found to be about twice too large
 * (docs/learn.md).
 *
 * Guo et al., On Calibration of Modern Neural Networks, 2017. */
#ifndef RC_MODEL_CONFIDENCE_H
#define RC_MODEL_CONFIDENCE_H

enum { RC_TEMPERATURES = 49, RC_TEMPERATURE_ONE = 8 /* its place among them */ };

/* Zeroed: no image. */
typedef struct rc_confidence {
    int images;
    double loss[RC_TEMPERATURES]; /* summed up over the images */
} rc_confidence;

/* The temperature of place k. */
double rc_confidence_at(int k);
/* An image that was held out: its logits (classes), all finite, and its label. */
void rc_confidence_add(rc_confidence *confidence, const float *logits, int classes, int label);
/* T; 0: there was no image. */
double rc_confidence_temperature(const rc_confidence *confidence);

#endif
