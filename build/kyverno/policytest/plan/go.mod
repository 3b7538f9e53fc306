module github.com/clusterimage/sealer/build/kyverno/policytest/plan

go 1.26.8
