// Package grpc calls services of gRPC behind a unix socket (grpc.io, "gRPC over
// HTTP2") with the standard library's HTTP client, and reads and writes messages
// of protocol buffers by the numbers of their fields (protobuf.dev, "Encoding").
//
// It is for services of which few methods with few fields are needed. There,
// google.golang.org/grpc and generated types would be most of the program.
package grpc
