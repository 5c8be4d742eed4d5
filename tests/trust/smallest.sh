# smallest STEPS: settings of the smallest net and lessons that have every stage, with so many steps of inversion.
smallest() {
    cat <<YAML
size: 14
net: resnet-small
net_width: 2
generator: generator-small
generator_width: 4
noise: 4
batch: 4
epochs: 2
refine_epochs: 1
milestone: [1]
inversion_steps: $1
crop_pad: 0
YAML
}
