package v1191

import (
	"context"
	"errors"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/generic"
	"k8s.io/apiserver/pkg/admission/plugin/policy/matching"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	listersv1 "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/clusterimage/sealer/redirect/policytest/plan"
)

// admissionPolicy evaluates Kubernetes' own policies with the code of its API
// server: constraints, match conditions and variables, mutations in their
// order, validations.
func admissionPolicy(t *testing.T, text string) plan.Evaluator {
	var m admissionregistrationv1.MutatingAdmissionPolicy
	var v admissionregistrationv1.ValidatingAdmissionPolicy
	documents(t, text, map[string]any{"MutatingAdmissionPolicy": &m, "ValidatingAdmissionPolicy": &v})
	byDefault(m.Spec.MatchConstraints)
	mutation := newMutation(t, &m)
	validator := validating.Validator(nil)
	if v.Name != "" {
		byDefault(v.Spec.MatchConstraints)
		validator = newValidator(t, &v)
	}
	return func(t *testing.T, c plan.Check) (map[string]any, string) {
		a := attributes(t, c)
		if a.GetOperation() == admission.Delete { // has no object to change
			return plan.Object(t, c.Object), ""
		}
		if matches(t, c, a, mutating.NewMutatingAdmissionPolicyAccessor(&m)) {
			if err := mutation.apply(t.Context(), c, a); err != nil {
				return nil, err.Error()
			}
		}
		object := a.VersionedObject.(*unstructured.Unstructured).Object
		if validator == nil || !matches(t, c, a, validating.NewValidatingAdmissionPolicyAccessor(&v)) {
			return object, ""
		}
		for _, d := range validator.Validate(t.Context(), a.GetResource(), a, nil, namespaceOf(c)(a.GetNamespace()), celconfig.RuntimeCELCostBudget, nil).Decisions {
			if d.Action == validating.ActionDeny {
				return object, d.Message
			}
		}
		return object, ""
	}
}

// byDefault sets what the API server sets in a policy that is created.
func byDefault(m *admissionregistrationv1.MatchResources) {
	equivalent := admissionregistrationv1.Equivalent
	m.MatchPolicy = &equivalent
	m.ObjectSelector = &metav1.LabelSelector{}
	if m.NamespaceSelector == nil {
		m.NamespaceSelector = &metav1.LabelSelector{}
	}
}

var interfaces = admission.NewObjectInterfacesFromScheme(runtime.NewScheme())

// matches reports whether the constraints of a policy are for a request.
func matches(t *testing.T, c plan.Check, a *admission.VersionedAttributes, policy generic.PolicyAccessor) bool {
	t.Helper()
	namespaces := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	if err := namespaces.Add(namespaceOf(c)(a.GetNamespace())); err != nil {
		t.Fatal(err)
	}
	matcher := generic.NewPolicyMatcher(matching.NewMatcher(listersv1.NewNamespaceLister(namespaces), nil))
	ok, _, _, err := matcher.DefinitionMatches(a, interfaces, policy)
	if err != nil {
		t.Fatal(err)
	}
	return ok
}

func attributes(t *testing.T, c plan.Check) *admission.VersionedAttributes {
	t.Helper()
	req := plan.AdmissionRequest(t, c)
	object := &unstructured.Unstructured{Object: plan.Object(t, c.Object)}
	var old runtime.Object
	if len(c.OldObject) > 0 {
		old = &unstructured.Unstructured{Object: plan.Object(t, c.OldObject)}
	}
	a, err := admission.NewVersionedAttributes(admission.NewAttributesRecord(object, old, schema.GroupVersionKind(req.Kind), req.Namespace, req.Name,
		schema.GroupVersionResource(req.Resource), req.SubResource, admission.Operation(req.Operation), nil, false, nil), schema.GroupVersionKind(req.Kind), nil)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// mode compiles expressions as for a new policy: with what the oldest
// Kubernetes that has MutatingAdmissionPolicy knows.
const mode = environment.NewExpressions

// compile prepares the variables of a policy and compiles its match conditions.
func compile(t *testing.T, name string, variables []admissionregistrationv1.Variable, conditions []admissionregistrationv1.MatchCondition, o cel.OptionalVariableDeclarations, policy *admissionregistrationv1.FailurePolicyType) (*cel.CompositedCompiler, matchconditions.Matcher) {
	t.Helper()
	compiler, err := cel.NewCompositedCompiler(environment.MustBaseEnvSet(version.MajorMinor(1, 32)))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range variables {
		if r := compiler.CompileAndStoreVariable(&validating.Variable{Name: v.Name, Expression: v.Expression}, o, mode); r.Error != nil {
			t.Fatalf("%s: variable %s: %v", name, v.Name, r.Error)
		}
	}
	accessors := make([]cel.ExpressionAccessor, len(conditions))
	for i := range conditions {
		accessors[i] = (*matchconditions.MatchCondition)(&conditions[i])
	}
	return compiler, matchconditions.NewMatcher(compiler.CompileCondition(accessors, o, mode), policy, "policy", "validate", name)
}

// mutation is a compiled MutatingAdmissionPolicy.
type mutation struct {
	compiler *cel.CompositedCompiler
	matcher  matchconditions.Matcher
	patchers []patch.Patcher
}

func newMutation(t *testing.T, policy *admissionregistrationv1.MutatingAdmissionPolicy) mutation {
	t.Helper()
	o := cel.OptionalVariableDeclarations{HasAuthorizer: true}
	var m mutation
	m.compiler, m.matcher = compile(t, policy.Name, policy.Spec.Variables, policy.Spec.MatchConditions, o, policy.Spec.FailurePolicy)
	o.HasPatchTypes = true
	for _, x := range policy.Spec.Mutations {
		e := m.compiler.CompileMutatingEvaluator(&patch.ApplyConfigurationCondition{Expression: x.ApplyConfiguration.Expression}, o, mode)
		if err := e.CompilationErrors(); len(err) > 0 {
			t.Fatalf("%s: %v", policy.Name, errors.Join(err...))
		}
		m.patchers = append(m.patchers, patch.NewApplyConfigurationPatcher(e))
	}
	return m
}

// apply changes the object of a, where the conditions match.
func (m mutation) apply(ctx context.Context, c plan.Check, a *admission.VersionedAttributes) error {
	ctx = m.compiler.CreateContext(ctx)
	match := m.matcher.Match(ctx, a, nil, nil)
	if match.Error != nil || !match.Matches {
		return match.Error
	}
	for _, p := range m.patchers {
		object, err := p.Patch(ctx, patch.Request{
			MatchedResource: a.GetResource(), VersionedAttributes: a, ObjectInterfaces: interfaces,
			Namespace: namespaceOf(c)(a.GetNamespace()), TypeConverter: types.GetTypeConverter(a.GetKind()),
		}, celconfig.RuntimeCELCostBudget)
		if err != nil {
			return err
		}
		a.Dirty, a.VersionedObject = true, object
	}
	return nil
}

func newValidator(t *testing.T, policy *admissionregistrationv1.ValidatingAdmissionPolicy) validating.Validator {
	t.Helper()
	o := cel.OptionalVariableDeclarations{HasAuthorizer: true}
	compiler, matcher := compile(t, policy.Name, policy.Spec.Variables, policy.Spec.MatchConditions, o, policy.Spec.FailurePolicy)
	var rules, messages []cel.ExpressionAccessor
	for _, v := range policy.Spec.Validations {
		rules = append(rules, &validating.ValidationCondition{Expression: v.Expression, Message: v.Message})
		messages = append(messages, &validating.MessageExpressionCondition{MessageExpression: v.MessageExpression})
	}
	rule, message := compiler.CompileCondition(rules, o, mode), compiler.CompileCondition(messages, cel.OptionalVariableDeclarations{}, mode)
	if err := errors.Join(append(rule.CompilationErrors(), message.CompilationErrors()...)...); err != nil {
		t.Fatalf("%s: %v", policy.Name, err)
	}
	return validating.NewValidator(rule, matcher, compiler.CompileCondition(nil, o, mode), message, policy.Spec.FailurePolicy, nil)
}
