package v1191

import (
	"testing"

	policiesv1beta1 "github.com/kyverno/api/api/policies.kyverno.io/v1beta1"
	celengine "github.com/kyverno/kyverno/pkg/cel/engine"
	"github.com/kyverno/kyverno/pkg/cel/libs"
	"github.com/kyverno/kyverno/pkg/cel/matching"
	mpolvalidation "github.com/kyverno/kyverno/pkg/cel/policies/mpol"
	mpolcompiler "github.com/kyverno/kyverno/pkg/cel/policies/mpol/compiler"
	mpolengine "github.com/kyverno/kyverno/pkg/cel/policies/mpol/engine"
	vpolvalidation "github.com/kyverno/kyverno/pkg/cel/policies/vpol"
	vpolcompiler "github.com/kyverno/kyverno/pkg/cel/policies/vpol/compiler"
	vpolengine "github.com/kyverno/kyverno/pkg/cel/policies/vpol/engine"
	engineapi "github.com/kyverno/kyverno/pkg/engine/api"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/kubectl-validate/pkg/openapiclient"

	"github.com/clusterimage/sealer/redirect/policytest/plan"
)

// types are the schemas of Kubernetes' own objects, which say by what key the
// containers of a pod are merged.
var types = mpolcompiler.NewStaticTypeConverterManager(openapiclient.NewHardcodedBuiltins("1.32"))

func namespaceOf(c plan.Check) func(string) *corev1.Namespace {
	return func(name string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: c.NSLabels}}
	}
}

// mutatingPolicy evaluates a MutatingPolicy, and the ValidatingPolicy beside it,
// with Kyverno's engines for them.
func mutatingPolicy(t *testing.T, text string) plan.Evaluator {
	var mpol policiesv1beta1.MutatingPolicy
	var vpol policiesv1beta1.ValidatingPolicy
	documents(t, text, map[string]any{"MutatingPolicy": &mpol, "ValidatingPolicy": &vpol})
	// What Kyverno's webhook for policies says.
	if _, err := mpolvalidation.Validate(&mpol); err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	lib := libs.NewFakeContextProvider()
	mutators, err := mpolengine.NewProvider(mpolcompiler.NewCompiler(), []policiesv1beta1.MutatingPolicyLike{&mpol}, nil, lib)
	if err != nil {
		t.Fatal(err)
	}
	validators := vpolengine.ProviderFunc(nil)
	if vpol.Name != "" {
		if _, err := vpolvalidation.Validate(&vpol); err != nil {
			t.Fatalf("%v:\n%s", err, text)
		}
		validators, err = vpolengine.NewProvider(vpolcompiler.NewCompiler(), []policiesv1beta1.ValidatingPolicyLike{&vpol}, nil)
		if err != nil {
			t.Fatal(err)
		}
	}
	return func(t *testing.T, c plan.Check) (map[string]any, string) {
		req := plan.AdmissionRequest(t, c)
		r, err := mpolengine.NewEngine(mutators, namespaceOf(c), matching.NewMatcher(), types, lib).Handle(t.Context(), celengine.RequestFromAdmission(lib, req), nil)
		if err != nil {
			t.Fatal(err)
		}
		object := plan.Object(t, c.Object)
		for _, p := range r.Policies {
			if reason := failure(p.Rules); reason != "" {
				return nil, reason
			}
		}
		if r.PatchedResource != nil {
			object = r.PatchedResource.Object
		}
		if validators == nil || c.Operation == "DELETE" {
			return object, ""
		}
		req.Object = runtime.RawExtension{Raw: plan.JSON(t, object)}
		v, err := vpolengine.NewEngine(validators, namespaceOf(c), matching.NewMatcher()).Handle(t.Context(), celengine.RequestFromAdmission(lib, req), nil)
		if err != nil {
			t.Fatal(err)
		}
		var rules []engineapi.RuleResponse
		for _, p := range v.Policies {
			rules = append(rules, p.Rules...)
		}
		return object, failure(rules)
	}
}
