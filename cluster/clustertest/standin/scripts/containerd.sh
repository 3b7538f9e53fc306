echo "stand-in: a container runtime would start here for $2:$3"
