package node

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/clusterimage/sealer/cluster/kube"
)

// adminConf is the path of the administrator's kubeconfig for this process.
func (m *Machine) adminConf() string {
	if m.Kubeconfig != "" {
		return m.Kubeconfig
	}
	return m.Path(adminConf)
}

// newKube is a client with the rights of the cluster's administrator.
func (w *Work) newKube() (*kube.Client, error) {
	c, err := kube.ReadConfig(w.adminConf())
	if err != nil {
		return nil, err
	}
	return kube.New(c)
}

// kubeStep reads the arguments of a step that speaks with the API server, and
// returns the client.
func kubeStep[A any](w *Work, args json.RawMessage) (A, *kube.Client, error) {
	var a A
	if err := decode(args, &a); err != nil {
		return a, nil, err
	}
	k, err := w.newKube()
	return a, k, err
}

// absent says whether an error means that the API server has no such object.
func absent(err error) bool { return status(err) == http.StatusNotFound }

// status is the status of an answer that is no success; 0 for other errors.
func status(err error) int {
	var s *kube.StatusError
	if errors.As(err, &s) {
		return s.Code
	}
	return 0
}

const mergePatch = "application/merge-patch+json"

// An object is as much as is read of any object of the API.
type object struct {
	Metadata struct {
		Name            string            `json:"name"`
		Namespace       string            `json:"namespace"`
		Labels          map[string]string `json:"labels"`
		Annotations     map[string]string `json:"annotations"`
		OwnerReferences []struct {
			Kind string `json:"kind"`
		} `json:"ownerReferences"`
		DeletionTimestamp *time.Time `json:"deletionTimestamp"`
	} `json:"metadata"`
	Spec struct {
		NodeName string  `json:"nodeName"`
		Taints   []taint `json:"taints"`
	} `json:"spec"`
	Status struct {
		Phase      string `json:"phase"`
		Conditions []struct {
			Type    string `json:"type"`
			Status  string `json:"status"`
			Message string `json:"message"`
		} `json:"conditions"`
		ContainerStatuses []struct {
			State map[string]struct {
				Reason  string `json:"reason"`
				Message string `json:"message"`
			} `json:"state"`
		} `json:"containerStatuses"`
	} `json:"status"`
}

type objectList struct {
	Items []object `json:"items"`
}

type taint struct {
	Key    string `json:"key"`
	Value  string `json:"value,omitempty"`
	Effect string `json:"effect"`
}

// ready reports whether the object's condition Ready is True, and else why not.
func (o object) ready() (bool, string) {
	for _, c := range o.Status.Conditions {
		if c.Type == "Ready" {
			return c.Status == "True", c.Message
		}
	}
	return false, "it has no condition yet"
}

// why returns the reason that keeps a pod from being ready.
func (o object) why() string {
	for _, s := range o.Status.ContainerStatuses {
		if w := s.State["waiting"]; w.Reason != "" {
			return strings.TrimSpace(w.Reason + " " + w.Message)
		}
	}
	for _, c := range o.Status.Conditions {
		if c.Status != "True" && c.Message != "" {
			return c.Message
		}
	}
	return o.Status.Phase
}
