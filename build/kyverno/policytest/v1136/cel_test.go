package v1136

import (
	"regexp"
	"strings"
	"testing"

	celgo "github.com/google/cel-go/cel"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"sigs.k8s.io/yaml"

	"github.com/clusterimage/sealer/build/kyverno/policytest/plan"
)

// TestExpressions evaluates the expressions of Kubernetes' own policies in the
// API server's CEL of Kubernetes 1.31, which has no MutatingAdmissionPolicy: the
// match conditions, the variables, what the mutations make of each image, the
// validations. That the API server merges the result into a pod is not shown
// here, but by make test-cluster.
func TestExpressions(t *testing.T) {
	plan.Run(t, "CEL 1.31", func(t *testing.T, p plan.Policy) plan.Evaluator {
		if p.Engine != "admissionpolicy" {
			return nil
		}
		return expressions(t, p.YAML)
	})
}

// admissionPolicy is what the two kinds of policy share.
type admissionPolicy struct {
	Kind string
	Spec struct {
		MatchConstraints admissionregistrationv1.MatchResources
		MatchConditions  []admissionregistrationv1.MatchCondition
		Variables        []admissionregistrationv1.Variable
		Validations      []admissionregistrationv1.Validation
		Mutations        []struct {
			ApplyConfiguration struct{ Expression string }
		}
	}

	compiled map[string]cel.Filter
}

// expression is an expression of a policy, or one of its variables.
type expression struct {
	name, text string
	returns    *celgo.Type
}

func (e expression) GetExpression() string      { return e.text }
func (e expression) GetName() string            { return e.name }
func (e expression) ReturnTypes() []*celgo.Type { return []*celgo.Type{e.returns} }

// mapping is the part of a mutation that says what becomes of an image.
var mapping = regexp.MustCompile(`\.map\(c, Object\.spec\.(\w+)\{name: c\.name, image: (.*)\}\)\}\}$`)

func expressions(t *testing.T, text string) plan.Evaluator {
	var policies []admissionPolicy
	for _, doc := range strings.Split(text, "\n---\n") {
		p := admissionPolicy{compiled: map[string]cel.Filter{}}
		if err := yaml.Unmarshal([]byte(doc), &p); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(p.Kind, "Binding") {
			policies = append(policies, p)
		}
	}
	return func(t *testing.T, c plan.Check) (map[string]any, string) {
		object := unmarshal(t, c.Object)
		for _, p := range policies {
			if !p.matches(t, c, object) {
				continue
			}
			p.mutate(t, c, object)
			for _, v := range p.Spec.Validations {
				if p.evaluate(t, c, object, v.Expression, celgo.BoolType).(bool) {
					continue
				}
				return object, p.evaluate(t, c, object, v.MessageExpression, celgo.StringType).(string)
			}
		}
		return object, ""
	}
}

// matches applies the resource rules, which are for pods and their ephemeral
// containers, the namespace selector and the conditions.
func (p admissionPolicy) matches(t *testing.T, c plan.Check, object map[string]any) bool {
	kind, _ := object["kind"].(string)
	if kind != "Pod" || (c.SubResource != "" && c.SubResource != "ephemeralcontainers") || (c.Operation != "CREATE" && c.Operation != "UPDATE") {
		return false
	}
	selector := labels.Everything()
	if s := p.Spec.MatchConstraints.NamespaceSelector; s != nil {
		var err error
		if selector, err = metav1.LabelSelectorAsSelector(s); err != nil {
			t.Fatal(err)
		}
	}
	if !selector.Matches(labels.Set(c.NSLabels)) {
		return false
	}
	for _, m := range p.Spec.MatchConditions {
		if !p.evaluate(t, c, object, m.Expression, celgo.BoolType).(bool) {
			return false
		}
	}
	return true
}

// mutate replaces images in object.
func (p admissionPolicy) mutate(t *testing.T, c plan.Check, object map[string]any) {
	spec := object["spec"].(map[string]any)
	for _, m := range p.Spec.Mutations {
		parts := mapping.FindStringSubmatch(m.ApplyConfiguration.Expression)
		if parts == nil {
			t.Fatalf("a mutation of another form: %s", m.ApplyConfiguration.Expression)
		}
		field, image := parts[1], parts[2]
		out := p.evaluate(t, c, object, "variables."+field+".map(c, c.name + '=' + "+image+").join(';')", celgo.StringType).(string)
		for _, pair := range strings.FieldsFunc(out, func(r rune) bool { return r == ';' }) {
			name, image, _ := strings.Cut(pair, "=")
			for _, container := range spec[field].([]any) {
				if x := container.(map[string]any); x["name"] == name {
					x["image"] = image
				}
			}
		}
	}
}

// evaluate returns the value of an expression for a request.
func (p admissionPolicy) evaluate(t *testing.T, c plan.Check, object map[string]any, text string, returns *celgo.Type) any {
	t.Helper()
	filter := p.compile(t, text, returns)
	req := admissionRequest(t, c)
	var old runtime.Object
	if len(c.OldObject) > 0 {
		old = &unstructured.Unstructured{Object: unmarshal(t, c.OldObject)}
	}
	a, err := admission.NewVersionedAttributes(admission.NewAttributesRecord(&unstructured.Unstructured{Object: object}, old,
		schema.GroupVersionKind(req.Kind), req.Namespace, req.Name, schema.GroupVersionResource(req.Resource), req.SubResource,
		admission.Operation(req.Operation), nil, false, nil), schema.GroupVersionKind(req.Kind), nil)
	if err != nil {
		t.Fatal(err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: req.Namespace, Labels: c.NSLabels}}
	results, _, err := filter.ForInput(t.Context(), a, cel.CreateAdmissionRequest(a.Attributes, req.Resource, req.Kind), cel.OptionalVariableBindings{}, cel.CreateNamespaceObject(namespace), celconfig.RuntimeCELCostBudget)
	if err != nil {
		t.Fatal(err)
	}
	if results[0].Error != nil {
		t.Fatalf("case %s: %s: %v", c.Name, text, results[0].Error)
	}
	return results[0].EvalResult.Value()
}

// compile compiles an expression after the policy's variables, once.
func (p admissionPolicy) compile(t *testing.T, text string, returns *celgo.Type) cel.Filter {
	t.Helper()
	if filter, ok := p.compiled[text]; ok {
		return filter
	}
	compiler, err := cel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion(), true))
	if err != nil {
		t.Fatal(err)
	}
	var variables []cel.NamedExpressionAccessor
	for _, v := range p.Spec.Variables {
		variables = append(variables, expression{v.Name, v.Expression, celgo.AnyType})
	}
	var none cel.OptionalVariableDeclarations
	compiler.CompileAndStoreVariables(variables, none, environment.StoredExpressions)
	p.compiled[text] = compiler.Compile([]cel.ExpressionAccessor{expression{text: text, returns: returns}}, none, environment.StoredExpressions)
	return p.compiled[text]
}
