module github.com/clusterimage/sealer/.ci/sbomreaders

go 1.26.8

require (
	github.com/CycloneDX/cyclonedx-go v0.11.0
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3
	github.com/spdx/tools-golang v0.5.7
)

require (
	github.com/anchore/go-struct-converter v0.1.0 // indirect
	golang.org/x/text v0.14.0 // indirect
)
