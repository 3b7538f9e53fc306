package proof

import (
	"context"
	"encoding/json"
	"fmt"
)

// An API lists the objects of a cluster. Package kube's Client is one.
type API interface {
	// List calls each with every object of the collection at path, in all
	// namespaces.
	List(ctx context.Context, path string, each func(object json.RawMessage) error) error
}

// The parts of objects that are read (Kubernetes API reference, core/v1).
type (
	meta struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
		Owners    []struct {
			Controller bool `json:"controller"`
		} `json:"ownerReferences"`
	}
	podSpec struct {
		Node       string      `json:"nodeName"`
		Init       []container `json:"initContainers"`
		Containers []container `json:"containers"`
		Ephemeral  []container `json:"ephemeralContainers"`
	}
	container struct {
		Name  string `json:"name"`
		Image string `json:"image"`
	}
	pod struct {
		Meta   meta    `json:"metadata"`
		Spec   podSpec `json:"spec"`
		Status struct {
			Init       []status `json:"initContainerStatuses"`
			Containers []status `json:"containerStatuses"`
			Ephemeral  []status `json:"ephemeralContainerStatuses"`
		} `json:"status"`
	}
	status struct {
		Name    string `json:"name"`
		ImageID string `json:"imageID"`
		State   struct {
			Running    *struct{} `json:"running"`
			Terminated *struct{} `json:"terminated"`
			Waiting    *struct {
				Reason string `json:"reason"`
			} `json:"waiting"`
		} `json:"state"`
		Last struct {
			Terminated *struct{} `json:"terminated"`
		} `json:"lastState"`
	}
	node struct {
		Meta   meta `json:"metadata"`
		Status struct {
			Images []struct {
				Names []string `json:"names"`
			} `json:"images"`
		} `json:"status"`
	}
	workload struct {
		Meta meta `json:"metadata"`
		Spec struct {
			Template    *template `json:"template"`
			JobTemplate *struct {
				Spec struct {
					Template *template `json:"template"`
				} `json:"spec"`
			} `json:"jobTemplate"`
		} `json:"spec"`
	}
	template struct {
		Spec podSpec `json:"spec"`
	}
)

// owned says that a controller made the object: the controller's own template
// tells which images come next.
func (m meta) owned() bool {
	for _, o := range m.Owners {
		if o.Controller {
			return true
		}
	}
	return false
}

type collection struct{ kind, path string }

// collections are the workloads of Kubernetes itself.
func collections() []collection {
	return []collection{
		{"Deployment", "/apis/apps/v1/deployments"},
		{"DaemonSet", "/apis/apps/v1/daemonsets"},
		{"StatefulSet", "/apis/apps/v1/statefulsets"},
		{"ReplicaSet", "/apis/apps/v1/replicasets"},
		{"ReplicationController", "/api/v1/replicationcontrollers"},
		{"Job", "/apis/batch/v1/jobs"},
		{"CronJob", "/apis/batch/v1/cronjobs"},
	}
}

// list reads a collection as objects of type T.
func list[T any](ctx context.Context, api API, path string, each func(T)) error {
	return api.List(ctx, path, func(raw json.RawMessage) error {
		var o T
		if err := json.Unmarshal(raw, &o); err != nil {
			return fmt.Errorf("object: %w", err)
		}
		each(o)
		return nil
	})
}
