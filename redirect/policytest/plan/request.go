package plan

import (
	"encoding/json"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// AdmissionRequest is the request that the API server sends for a check.
func AdmissionRequest(t *testing.T, c Check) admissionv1.AdmissionRequest {
	t.Helper()
	var object unstructured.Unstructured
	if err := object.UnmarshalJSON(c.Object); err != nil {
		t.Fatal(err)
	}
	gvk := object.GroupVersionKind()
	gvr := metav1.GroupVersionResource{Group: gvk.Group, Version: gvk.Version, Resource: strings.ToLower(gvk.Kind) + "s"}
	req := admissionv1.AdmissionRequest{
		Kind: metav1.GroupVersionKind(gvk), Resource: gvr, SubResource: c.SubResource,
		Name: object.GetName(), Namespace: object.GetNamespace(), Operation: admissionv1.Operation(c.Operation),
		Object: runtime.RawExtension{Raw: c.Object}, OldObject: runtime.RawExtension{Raw: c.OldObject},
	}
	if req.Operation == admissionv1.Delete { // has only an old object
		req.Object, req.OldObject = runtime.RawExtension{}, req.Object
	}
	return req
}

// Object decodes a JSON object.
func Object(t *testing.T, b []byte) map[string]any {
	t.Helper()
	var object map[string]any
	if err := json.Unmarshal(b, &object); err != nil {
		t.Fatal(err)
	}
	return object
}

// JSON encodes v.
func JSON(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
