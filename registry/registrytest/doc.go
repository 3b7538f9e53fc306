// Package registrytest is an upstream registry on loopback, for tests and demos:
// distribution's handlers over small but real images, with the faults of a real
// network on demand.
//
//	up := registrytest.New(t, registrytest.Options{Images: registrytest.Samples()})
//	up.Inject(registrytest.Fault{On: registrytest.Blob, Times: 1, Do: registrytest.Cut(100)})
//	... mirror up.Ref("library/nginx:latest") ...
//	if n := up.Count(registrytest.Blob, "GET"); n != 7 { ... }
//
// Images are described in symbols (Image, Layer). Equal descriptions give equal
// bytes, so that layers of one name are shared between images. Every image is
// served under two repositories, its path ("library/nginx") and its full name
// ("docker.io/library/nginx"), so that a registries.conf that sends docker.io to
// 127.0.0.1:PORT/docker.io finds it; Upstream.RegistriesConf writes such a file.
// If two images have one path, the first keeps it.
package registrytest
