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

// Ops are the operations by their names.
func (s *Server) Ops() map[string]wire.Handler {
	return map[string]wire.Handler{
		OpLook: func(ctx context.Context, in *wire.Incoming) (any, error) {
			var q LookRequest
			if err := in.Decode(&q); err != nil {
				return nil, err
			}
			return s.Look(ctx, q)
		},
		OpOpen: func(ctx context.Context, in *wire.Incoming) (any, error) {
			var q OpenRequest
			if err := in.Decode(&q); err != nil {
				return nil, err
			}
			return s.Open(ctx, q.Cluster, q.Holder)
		},
		OpCheck: func(ctx context.Context, in *wire.Incoming) (any, error) {
			var q CheckRequest
			if err := in.Decode(&q); err != nil {
				return nil, err
			}
			return s.Check(ctx, q)
		},
		OpBlob: func(ctx context.Context, in *wire.Incoming) (any, error) {
			var q BlobRequest
			if err := in.Decode(&q); err != nil {
				return nil, err
			}
			return nil, s.PutBlob(ctx, q.Digest, q.Size, in.Input())
		},
		OpServe: func(_ context.Context, in *wire.Incoming) (any, error) {
			var q ServeRequest
			if err := in.Decode(&q); err != nil {
				return nil, err
			}
			return s.Serve(q)
		},
		OpFetch: func(ctx context.Context, in *wire.Incoming) (any, error) {
			var q FetchRequest
			if err := in.Decode(&q); err != nil {
				return nil, err
			}
			return nil, s.Fetch(ctx, q)
		},
		OpWants: opWants,
		OpCerts: func(_ context.Context, in *wire.Incoming) (any, error) {
			var q CertsRequest
			if err := in.Decode(&q); err != nil {
				return nil, err
			}
			return s.Certs(q)
		},
		OpDebug: func(ctx context.Context, in *wire.Incoming) (any, error) {
			var q DebugRequest
			if err := in.Decode(&q); err != nil {
				return nil, err
			}
			return nil, s.Debug(ctx, q, in.Output())
		},
		OpKept: func(_ context.Context, in *wire.Incoming) (any, error) {
			var q KeptRequest
			if err := in.Decode(&q); err != nil {
				return nil, err
			}
			return s.Kept(q)
		},
		OpState: func(ctx context.Context, in *wire.Incoming) (any, error) {
			var q RuntimeRequest
			if err := in.Decode(&q); err != nil {
				return nil, err
			}
			return s.Runtime(ctx, q)
		},
		OpStep:  s.opStep,
		OpUndo:  s.opUndo,
		OpClose: func(context.Context, *wire.Incoming) (any, error) { return nil, s.Close() },
	}
}

// logTo hands lines to the engine. A session that ended has nobody to tell.
func logTo(ctx context.Context, in *wire.Incoming) func(string) {
	return func(line string) { _ = in.Log(ctx, wire.Log{Text: line}) }
}

func (s *Server) opStep(ctx context.Context, in *wire.Incoming) (any, error) {
	var q StepRequest
	if err := in.Decode(&q); err != nil {
		return nil, err
	}
	r, records, err := s.Run(ctx, Order{Step: q.Step, Secrets: q.Secrets, Log: logTo(ctx, in)})
	result := StepResult{Result: r, Records: records}
	if err != nil {
		result.Error = err.Error()
	}
	return result, nil
}

func opWants(ctx context.Context, in *wire.Incoming) (any, error) {
	var config string
	if err := in.Decode(&config); err != nil {
		return nil, err
	}
	return KubeadmImages(ctx, config, in.Input())
}

func (s *Server) opUndo(ctx context.Context, in *wire.Incoming) (any, error) {
	var q UndoRequest
	if err := in.Decode(&q); err != nil {
		return nil, err
	}
	return nil, s.Undo(ctx, q.Forget, q.Purge, logTo(ctx, in))
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
