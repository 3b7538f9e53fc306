package v1191

import (
	"testing"

	policiesv1beta1 "github.com/kyverno/api/api/policies.kyverno.io/v1beta1"
	"github.com/kyverno/kyverno/pkg/admissionpolicy"
	celengine "github.com/kyverno/kyverno/pkg/cel/engine"
	"github.com/kyverno/kyverno/pkg/cel/libs"
	"github.com/kyverno/kyverno/pkg/cel/matching"
	mpolcompiler "github.com/kyverno/kyverno/pkg/cel/policies/mpol/compiler"
	mpolengine "github.com/kyverno/kyverno/pkg/cel/policies/mpol/engine"
	vpolcompiler "github.com/kyverno/kyverno/pkg/cel/policies/vpol/compiler"
	vpolengine "github.com/kyverno/kyverno/pkg/cel/policies/vpol/engine"
	engineapi "github.com/kyverno/kyverno/pkg/engine/api"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	admissionregistrationv1beta1 "k8s.io/api/admissionregistration/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/kubectl-validate/pkg/openapiclient"

	"github.com/clusterimage/sealer/build/kyverno/policytest/plan"
)

// types are the schemas of Kubernetes' own objects, which say by what key the
// containers of a pod are merged.
var types = mpolcompiler.NewStaticTypeConverterManager(openapiclient.NewHardcodedBuiltins("1.32"))

func namespaceOf(c plan.Check) func(string) *corev1.Namespace {
	return func(name string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: c.NSLabels}}
	}
}

func mutatingPolicy(t *testing.T, text string) plan.Evaluator {
	var mpol policiesv1beta1.MutatingPolicy
	var vpol policiesv1beta1.ValidatingPolicy
	documents(t, text, map[string]any{"MutatingPolicy": &mpol, "ValidatingPolicy": &vpol})
	lib := libs.NewFakeContextProvider()
	mutators, err := mpolengine.NewProvider(mpolcompiler.NewCompiler(), []policiesv1beta1.MutatingPolicyLike{&mpol}, nil, lib)
	if err != nil {
		t.Fatal(err)
	}
	validators := vpolengine.ProviderFunc(nil)
	if vpol.Name != "" {
		validators, err = vpolengine.NewProvider(vpolcompiler.NewCompiler(), []policiesv1beta1.ValidatingPolicyLike{&vpol}, nil)
		if err != nil {
			t.Fatal(err)
		}
	}
	return func(t *testing.T, c plan.Check) (map[string]any, string) {
		req := admissionRequest(t, c)
		r, err := mpolengine.NewEngine(mutators, namespaceOf(c), matching.NewMatcher(), types, lib).Handle(t.Context(), celengine.RequestFromAdmission(lib, req), nil)
		if err != nil {
			t.Fatal(err)
		}
		object := unmarshal(t, c.Object)
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
		req.Object = runtime.RawExtension{Raw: marshal(t, object)}
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

// admissionPolicy evaluates MutatingAdmissionPolicy and
// ValidatingAdmissionPolicy as the API server does: match, variables, patches in
// their order, validations.
func admissionPolicy(t *testing.T, text string) plan.Evaluator {
	var mutating admissionregistrationv1beta1.MutatingAdmissionPolicy
	var denying admissionregistrationv1.ValidatingAdmissionPolicy
	documents(t, text, map[string]any{"MutatingAdmissionPolicy": &mutating, "ValidatingAdmissionPolicy": &denying})
	return func(t *testing.T, c plan.Check) (map[string]any, string) {
		a := attributes(t, c)
		namespace := namespaceOf(c)(a.GetNamespace())
		constraints := admissionpolicy.ConvertMatchResources(mutating.Spec.MatchConstraints)
		if ok, err := matching.NewMatcher().Match(&matching.MatchCriteria{Constraints: constraints}, a, namespace); err != nil || !ok {
			return unmarshal(t, c.Object), text1(err)
		}
		versioned, err := admission.NewVersionedAttributes(a, a.GetKind(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := mutate(t, &mutating, versioned, namespace); err != nil {
			return nil, err.Error()
		}
		object := versioned.VersionedObject.(*unstructured.Unstructured).Object
		if denying.Name == "" {
			return object, ""
		}
		return object, validate(t, &denying, versioned, namespace)
	}
}

func text1(err error) string {
	if err != nil {
		return err.Error()
	}
	return ""
}

func attributes(t *testing.T, c plan.Check) admission.Attributes {
	t.Helper()
	req := admissionRequest(t, c)
	object := &unstructured.Unstructured{Object: unmarshal(t, c.Object)}
	var old runtime.Object
	if len(c.OldObject) > 0 {
		old = &unstructured.Unstructured{Object: unmarshal(t, c.OldObject)}
	}
	return admission.NewAttributesRecord(object, old, schema.GroupVersionKind(req.Kind), req.Namespace, req.Name,
		schema.GroupVersionResource(req.Resource), req.SubResource, admission.Operation(req.Operation), nil, false, nil)
}

// mutate changes the object of a, where the conditions match.
func mutate(t *testing.T, policy *admissionregistrationv1beta1.MutatingAdmissionPolicy, a *admission.VersionedAttributes, namespace *corev1.Namespace) error {
	var conditions []admissionregistrationv1.MatchCondition
	for _, m := range policy.Spec.MatchConditions {
		conditions = append(conditions, admissionregistrationv1.MatchCondition(m))
	}
	var variables []admissionregistrationv1.Variable
	for _, v := range policy.Spec.Variables {
		variables = append(variables, admissionregistrationv1.Variable(v))
	}
	compiler, err := admissionpolicy.NewCompiler(conditions, variables)
	if err != nil {
		return err
	}
	declared := cel.OptionalVariableDeclarations{HasPatchTypes: true}
	compiler.CompileVariables(declared)
	fail := admissionregistrationv1.Fail
	match := matchconditions.NewMatcher(compiler.CompileMatchConditions(declared), &fail, "policy", "Equivalent", policy.Name).Match(t.Context(), a, nil, nil)
	if match.Error != nil || !match.Matches {
		return match.Error
	}
	compiler.WithMutations(policy.Spec.Mutations)
	for _, patcher := range compiler.CompileMutations(declared) {
		object, err := patcher.Patch(t.Context(), patch.Request{
			MatchedResource: a.GetResource(), VersionedAttributes: a, Namespace: namespace,
			ObjectInterfaces: admission.NewObjectInterfacesFromScheme(runtime.NewScheme()),
			TypeConverter:    types.GetTypeConverter(a.GetKind()),
		}, celconfig.RuntimeCELCostBudget)
		if err != nil {
			return err
		}
		a.Dirty, a.VersionedObject = true, object
	}
	return nil
}

// validate returns why the object is denied, or "".
func validate(t *testing.T, policy *admissionregistrationv1.ValidatingAdmissionPolicy, a *admission.VersionedAttributes, namespace *corev1.Namespace) string {
	compiler, err := admissionpolicy.NewCompiler(policy.Spec.MatchConditions, policy.Spec.Variables)
	if err != nil {
		return err.Error()
	}
	compiler.WithValidations(policy.Spec.Validations)
	var declared cel.OptionalVariableDeclarations
	compiler.CompileVariables(declared)
	matcher := matchconditions.NewMatcher(compiler.CompileMatchConditions(declared), policy.Spec.FailurePolicy, "", "Equivalent", "")
	validator := validating.NewValidator(compiler.CompileValidations(declared), matcher, compiler.CompileAuditAnnotationsExpressions(declared),
		compiler.CompileMessageExpressions(declared), policy.Spec.FailurePolicy, nil)
	for _, d := range validator.Validate(t.Context(), a.GetResource(), a, nil, namespace, celconfig.RuntimeCELCostBudget, nil).Decisions {
		if d.Action == validating.ActionDeny {
			return d.Message
		}
	}
	return ""
}
