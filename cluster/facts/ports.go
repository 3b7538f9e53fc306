package facts

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/clusterimage/sealer/cluster/plan"
	"github.com/clusterimage/sealer/cluster/wire"
)

// greeting is the answer of a port that is opened for the test. A firewall or a
// proxy that accepts connections in its place does not know the greeting, and
// is found out.
const greeting = "sealer-port\n"

// dialTimeout bounds one try; a firewall that drops is told from one that
// rejects by it.
const dialTimeout = 3 * time.Second

// A Peer is a node of the matrix. A port that another program has, that of a
// running cluster for example, is only connected to.
type Peer struct {
	Name    string
	Address string // as the other nodes reach it
	Conn    *wire.Conn
	// Ports are the ports that the node serves. From says for each which nodes have
	// to reach it; a nil From means all nodes.
	Ports []plan.Port
	From  func(p plan.Port, from string) bool
}

// neighbours bounds to how many other nodes a node connects, in clusters where
// all pairs would be too many.
const neighbours = 24

// Matrix lets each peer listen on its ports for a moment and the others connect.
// With more than 24 peers a node tries its next 24 in the order given, and the
// first three in any case, which are masters. The links are in the order of
// peers; one from a node to itself says that it could not open the port. An error is one of the sessions, not of a link.
func Matrix(ctx context.Context, peers []Peer) ([]plan.Link, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var listening sync.WaitGroup
	defer listening.Wait()
	defer cancel(errMatrixDone)
	ready := make([]chan string, len(peers))
	var g errgroup.Group
	for i, p := range peers {
		ready[i] = make(chan string, 1)
		listening.Go(func() {
			err := p.Conn.Call(ctx, opListen, p.Ports, nil, wire.Streams{Log: func(l wire.Log) {
				select {
				case ready[i] <- l.Text:
				default: // a second line means nothing
				}
			}})
			if err != nil && !errors.Is(err, errMatrixDone) {
				cancel(fmt.Errorf("open ports on %s: %w", p.Name, err))
			}
		})
	}
	refused := make([][]portFault, len(peers))
	for i := range peers {
		select {
		case text := <-ready[i]:
			if err := json.Unmarshal([]byte(text), &refused[i]); err != nil {
				return nil, fmt.Errorf("open ports on %s: %w", peers[i].Name, err)
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	links := make([][]plan.Link, len(peers))
	for i, p := range peers {
		g.Go(func() (err error) {
			links[i], err = p.dial(ctx, wanted(peers, i, refused))
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	for i, p := range peers {
		for _, f := range refused[i] {
			if !f.Taken {
				port := plan.Port{Network: f.Network, Port: f.Port}
				links[i] = append(links[i], plan.Link{From: p.Name, To: p.Name, Port: port, Cause: "cannot listen: " + f.Cause})
			}
		}
	}
	return slices.Concat(links...), nil
}

// dial lets the peer connect to the others as want says. The links are in that order.
func (p Peer) dial(ctx context.Context, want []target) ([]plan.Link, error) {
	if len(want) == 0 {
		return nil, nil
	}
	var causes []string
	if err := p.Conn.Call(ctx, opDial, want, &causes, wire.Streams{}); err != nil {
		return nil, fmt.Errorf("connect from %s: %w", p.Name, err)
	}
	if len(causes) != len(want) {
		return nil, fmt.Errorf("connect from %s: %d answers to %d questions", p.Name, len(causes), len(want))
	}
	var links []plan.Link
	for k, w := range want {
		links = append(links, plan.Link{From: p.Name, To: w.Name, Port: w.Port, Cause: causes[k]})
	}
	return links, nil
}

var errMatrixDone = errors.New("all ports were tried")

// A target is a port for a node to connect to.
type target struct {
	Name    string    `json:"name"`
	Address string    `json:"address"`
	Port    plan.Port `json:"port"`
	Greets  bool      `json:"greets"` // the port was opened for the test
}

// wanted returns the ports that peer i has to reach. A port that could not be
// opened for the test is left out, unless it is a TCP port that another program
// has taken.
func wanted(peers []Peer, i int, refused [][]portFault) []target {
	var want []target
	for step := 1; step < len(peers); step++ {
		k := (i + step) % len(peers)
		if len(peers) > neighbours && step > neighbours && k > 2 {
			continue
		}
		to := peers[k]
		for _, port := range to.Ports {
			if to.From != nil && !to.From(port, peers[i].Name) {
				continue
			}
			fault := slices.IndexFunc(refused[k], func(f portFault) bool { return f.Network == port.Network && f.Port == port.Port })
			if fault >= 0 && (!refused[k][fault].Taken || port.Network != "tcp") {
				continue
			}
			want = append(want, target{to.Name, to.Address, port, fault < 0})
		}
	}
	return want
}

// A portFault is a port that could not be opened.
type portFault struct {
	Network string `json:"network"`
	Port    int    `json:"port"`
	Taken   bool   `json:"taken"` // another program listens there
	Cause   string `json:"cause"`
}

// serveListen holds ports open until the call is cancelled. Its one log line
// lists the ports that could not be opened.
func serveListen(ctx context.Context, in *wire.Incoming) (any, error) {
	var ports []plan.Port
	if err := in.Decode(&ports); err != nil {
		return nil, err
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	faults := []portFault{}
	for _, p := range ports {
		closer, err := openPort(ctx, &wg, p)
		if err != nil {
			faults = append(faults, portFault{p.Network, p.Port, errors.Is(err, syscall.EADDRINUSE), short(err).Error()})
			continue
		}
		defer closer.Close()
	}
	text, err := json.Marshal(faults)
	if err != nil {
		return nil, err
	}
	if err := in.Log(ctx, wire.Log{Text: string(text)}); err != nil {
		return nil, err
	}
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

func openPort(ctx context.Context, wg *sync.WaitGroup, p plan.Port) (io.Closer, error) {
	var lc net.ListenConfig
	at := ":" + strconv.Itoa(p.Port)
	if p.Network == "udp" {
		c, err := lc.ListenPacket(ctx, "udp", at)
		if err != nil {
			return nil, err
		}
		wg.Go(func() { greetPackets(c) })
		return c, nil
	}
	l, err := lc.Listen(ctx, "tcp", at)
	if err != nil {
		return nil, err
	}
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			// The greeting fits into every socket's buffer: no goroutine is needed.
			_ = c.SetDeadline(time.Now().Add(dialTimeout))
			_, _ = io.WriteString(c, greeting) // the connecting side reports a missing greeting
			_ = c.Close()
		}
	})
	return l, nil
}

func greetPackets(c net.PacketConn) {
	b := make([]byte, len(greeting))
	for {
		n, from, err := c.ReadFrom(b)
		if err != nil {
			return
		}
		if string(b[:n]) == greeting { // answers are no larger than questions, and only ours are answered
			_, _ = c.WriteTo(b[:n], from)
		}
	}
}

// serveDial connects to each target. The answer has a cause for each target; ""
// means that it was reached.
func serveDial(ctx context.Context, in *wire.Incoming) (any, error) {
	var targets []target
	if err := in.Decode(&targets); err != nil {
		return nil, err
	}
	causes := make([]string, len(targets))
	var g errgroup.Group
	g.SetLimit(64)
	for i, t := range targets {
		g.Go(func() error {
			if err := try(ctx, t); err != nil {
				causes[i] = err.Error()
			}
			return nil
		})
	}
	_ = g.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return causes, nil
}

func try(ctx context.Context, t target) error {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	var d net.Dialer
	c, err := d.DialContext(ctx, cmp.Or(t.Port.Network, "tcp"), net.JoinHostPort(t.Address, strconv.Itoa(t.Port.Port)))
	if err != nil {
		return short(err)
	}
	defer c.Close()
	if !t.Greets {
		return nil
	}
	_ = c.SetDeadline(time.Now().Add(dialTimeout))
	if t.Port.Network == "udp" {
		if _, err := io.WriteString(c, greeting); err != nil {
			return short(err)
		}
	}
	b := make([]byte, len(greeting))
	if _, err := io.ReadFull(c, b); err != nil {
		return short(err)
	}
	if string(b) != greeting {
		return errors.New("another program answered")
	}
	return nil
}

// short takes the addresses out of a network error: the link names them.
func short(err error) error {
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return fmt.Errorf("no answer within %v: dropped on the way", dialTimeout)
	}
	var sys syscall.Errno
	if errors.As(err, &sys) {
		return sys
	}
	return err
}
