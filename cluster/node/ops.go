package node

import (
	"context"
	"errors"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/clusterimage/sealer/cluster/journal"
	"github.com/clusterimage/sealer/cluster/plan"
	"github.com/clusterimage/sealer/cluster/spread"
	"github.com/clusterimage/sealer/cluster/wire"
)

// The operations of a Server over a session.
const (
	OpLook  = "look"  // LookRequest -> plan.Node
	OpOpen  = "open"  // OpenRequest -> journal.Records
	OpCheck = "check" // CheckRequest -> []string, the IDs of the steps that are done
	OpBlob  = "blob"  // BlobRequest, the blob as input
	OpGet   = "get"   // BlobRequest; the blob as output
	OpServe = "serve" // ServeRequest -> spread.Offer: other machines may fetch blobs
	OpFetch = "fetch" // FetchRequest
	OpStep  = "step"  // StepRequest -> StepResult; logs
	OpUndo  = "undo"  // UndoRequest; logs
	OpCerts = "certs" // CertsRequest -> []Cert
	OpDebug = "debug" // DebugRequest; a tar as output
	OpClose = "close"
	OpKept  = "kept"           // KeptRequest -> Kept
	OpState = "runtime"        // RuntimeRequest -> RuntimeState
	OpWants = "kubeadm.images" // kubeadm's configuration as a string, kubeadm as input -> []string, see KubeadmImages
)

// An OpenRequest begins the work on a cluster.
type OpenRequest struct {
	Cluster string         `json:"cluster"`
	Holder  journal.Holder `json:"holder"`
}

// A BlobRequest says which blob comes.
type BlobRequest struct {
	Digest digest.Digest `json:"digest"`
	Size   int64         `json:"size"`
}

// A ServeRequest asks the machine to serve others.
type ServeRequest struct {
	Rate int64 `json:"rate,omitempty"` // bytes a second to all of them together; 0 is no limit
}

// A FetchRequest says which blob another machine has.
type FetchRequest struct {
	BlobRequest
	Peer spread.Peer `json:"peer"`
}

// A StepRequest asks for one step. Secrets are for this step alone.
type StepRequest struct {
	Step    plan.Step         `json:"step"`
	Secrets map[string]string `json:"secrets,omitempty"`
}

// A StepResult is the outcome of a step and the records that it wrote into the
// journal. Error is the cause of a failure; the records come in either case.
type StepResult struct {
	Result
	Records journal.Records `json:"records,omitempty"`
	Error   string          `json:"error,omitempty"`
}

// An UndoRequest asks that everything is put back.
type UndoRequest struct {
	// Forget removes the cluster's directory, too; Purge all of sealer, when
	// no other cluster and no image is left.
	Forget bool `json:"forget,omitempty"`
	Purge  bool `json:"purge,omitempty"`
}

// op makes a handler of an operation on a request of the type Q.
func op[Q any](do func(ctx context.Context, in *wire.Incoming, q Q) (any, error)) wire.Handler {
	return func(ctx context.Context, in *wire.Incoming) (any, error) {
		var q Q
		if err := in.Decode(&q); err != nil {
			return nil, err
		}
		return do(ctx, in, q)
	}
}

// Ops are the operations by their names.
func (s *Server) Ops() map[string]wire.Handler {
	return map[string]wire.Handler{
		OpLook: op(func(ctx context.Context, _ *wire.Incoming, q LookRequest) (any, error) { return s.Look(ctx, q) }),
		OpOpen: op(func(ctx context.Context, _ *wire.Incoming, q OpenRequest) (any, error) {
			return s.Open(ctx, q.Cluster, q.Holder)
		}),
		OpCheck: op(func(ctx context.Context, _ *wire.Incoming, q CheckRequest) (any, error) { return s.Check(ctx, q) }),
		OpBlob: op(func(ctx context.Context, in *wire.Incoming, q BlobRequest) (any, error) {
			return nil, s.PutBlob(ctx, q.Digest, q.Size, in.Input())
		}),
		OpGet: op(func(ctx context.Context, in *wire.Incoming, q BlobRequest) (any, error) {
			return nil, s.GetBlob(ctx, q.Digest, in.Output())
		}),
		OpServe: op(func(_ context.Context, _ *wire.Incoming, q ServeRequest) (any, error) { return s.Serve(q) }),
		OpFetch: op(func(ctx context.Context, _ *wire.Incoming, q FetchRequest) (any, error) { return nil, s.Fetch(ctx, q) }),
		OpWants: op(func(ctx context.Context, in *wire.Incoming, config string) (any, error) {
			return KubeadmImages(ctx, config, in.Input())
		}),
		OpCerts: op(func(_ context.Context, _ *wire.Incoming, q CertsRequest) (any, error) { return s.Certs(q) }),
		OpDebug: op(func(ctx context.Context, in *wire.Incoming, q DebugRequest) (any, error) {
			return nil, s.Debug(ctx, q, in.Output())
		}),
		OpKept:  op(func(_ context.Context, _ *wire.Incoming, q KeptRequest) (any, error) { return s.Kept(q) }),
		OpState: op(func(ctx context.Context, _ *wire.Incoming, q RuntimeRequest) (any, error) { return s.Runtime(ctx, q) }),
		OpStep:  op(s.step),
		OpUndo: op(func(ctx context.Context, in *wire.Incoming, q UndoRequest) (any, error) {
			return nil, s.Undo(ctx, q.Forget, q.Purge, logTo(ctx, in))
		}),
		OpClose: func(context.Context, *wire.Incoming) (any, error) { return nil, s.Close() },
	}
}

// logTo hands lines to the engine. A session that ended has nobody to tell.
func logTo(ctx context.Context, in *wire.Incoming) func(string) {
	return func(line string) { _ = in.Log(ctx, wire.Log{Text: line}) }
}

// step runs a step. Its failure is in the result, with the records that it wrote.
func (s *Server) step(ctx context.Context, in *wire.Incoming, q StepRequest) (any, error) {
	r, records, err := s.Run(ctx, Order{Step: q.Step, Secrets: q.Secrets, Log: logTo(ctx, in)})
	result := StepResult{Result: r, Records: records}
	if err != nil {
		result.Error = err.Error()
	}
	return result, nil
}

// busyWait is how long Open waits for a lock whose session was cut: its process
// may not have noticed yet, and gives the program that it runs 10 s to end.
const busyWait = 12 * time.Second

// acquire takes the lock, waiting a little for a holder that is about to end.
func acquire(dir string, h journal.Holder) (*journal.Lock, error) {
	end := time.Now().Add(busyWait)
	for {
		l, err := journal.Acquire(dir, h)
		if !errors.Is(err, journal.ErrLocked) || time.Now().After(end) {
			return l, err
		}
		time.Sleep(100 * time.Millisecond)
	}
}
