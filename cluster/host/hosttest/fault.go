package hosttest

import (
	"net"
	"sync/atomic"
	"time"
)

// A Fault describes how connections fail that begin after it was set. The zero
// value is no fault.
type Fault struct {
	// Refuse closes each connection before a word: sshd is too busy.
	Refuse bool
	// RefuseFirst closes so many connections, and lets the others be.
	RefuseFirst int
	// Hang accepts a connection and never says anything.
	Hang bool
	// CutAfter closes a connection when so many bytes have been sent to the
	// client; 0 is never.
	CutAfter int64
	// Delay comes before each write to the client.
	Delay time.Duration
	// Freeze, when it is closed, stops all bytes to the client, and nothing is
	// closed: a cable that is cut.
	Freeze <-chan struct{}
}

// Inject sets the fault of the connections to come.
func (m *Machine) Inject(f Fault) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fault = f
}

// faultyConn is the server's end of a connection with a fault.
type faultyConn struct {
	net.Conn
	fault Fault
	sent  atomic.Int64
}

func (c *faultyConn) Write(b []byte) (int, error) {
	if c.fault.Delay > 0 {
		time.Sleep(c.fault.Delay)
	}
	select {
	case <-c.fault.Freeze: // never, when there is none
		return len(b), nil
	default:
	}
	if left := c.fault.CutAfter - c.sent.Load(); c.fault.CutAfter > 0 && int64(len(b)) >= left {
		n, _ := c.Conn.Write(b[:max(left, 0)])
		c.Close()
		return n, net.ErrClosed
	}
	n, err := c.Conn.Write(b)
	c.sent.Add(int64(n))
	return n, err
}
