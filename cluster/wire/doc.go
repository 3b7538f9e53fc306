// Package wire is the protocol between the engine and "sealer node": calls in
// both directions over one pair of streams, as an SSH session has them.
//
// A stream begins with the line Magic. Frames follow:
//
//	length   4 bytes, big endian: of kind and payload
//	kind     1 byte
//	payload  kind 0: a Message as JSON
//	         kind 1, 2: 8 bytes id of a call, then bytes of its input (1, from
//	         the caller) or output (2, to the caller); no bytes are its end
//	         kind 3, 4: 8 bytes id, 4 bytes count: so many further bytes of
//	         input (3, to the caller) or output (4, from the caller) may be sent
//
// Each side sends a hello first. A call has a name, a body, optionally a stream
// of input and one of output, logs on its way, and one result. Several calls
// are in flight at once; an answer needs no order. Window bytes may be sent
// ahead of each stream; more is a fault. A peer that breaks a rule is a fault
// of the connection, which ends all its calls: garbled bytes never do harm.
//
// The end of the connection cancels the context of every call that it carried.
package wire
