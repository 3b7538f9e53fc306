module github.com/clusterimage/sealer/cluster/extend/sohost

go 1.21
