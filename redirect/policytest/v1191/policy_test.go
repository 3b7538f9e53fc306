// Package v1191 evaluates the policies with the engines of Kyverno 1.19.1, and
// Kubernetes' own policies with the code of its API server.
package v1191

import (
	"context"
	"strings"
	"testing"

	kyvernov1 "github.com/kyverno/kyverno/api/kyverno/v1"
	kyvernov2 "github.com/kyverno/kyverno/api/kyverno/v2"
	"github.com/kyverno/kyverno/pkg/config"
	"github.com/kyverno/kyverno/pkg/engine"
	"github.com/kyverno/kyverno/pkg/engine/adapters"
	engineapi "github.com/kyverno/kyverno/pkg/engine/api"
	"github.com/kyverno/kyverno/pkg/engine/factories"
	"github.com/kyverno/kyverno/pkg/engine/jmespath"
	imageverifycache "github.com/kyverno/kyverno/pkg/image/verification/cache"
	yamlutils "github.com/kyverno/kyverno/pkg/utils/yaml"
	validation "github.com/kyverno/kyverno/pkg/validation/policy"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/clusterimage/sealer/redirect/policytest/plan"
)

func TestPolicies(t *testing.T) {
	plan.Run(t, "1.19.1", func(t *testing.T, p plan.Policy) plan.Evaluator {
		switch p.Engine {
		case "clusterpolicy":
			return clusterPolicy(t, p.YAML)
		case "mutatingpolicy":
			return mutatingPolicy(t, p.YAML)
		case "admissionpolicy":
			return admissionPolicy(t, p.YAML)
		}
		return nil
	})
}

func clusterPolicy(t *testing.T, text string) plan.Evaluator {
	policies, _, _, _, _, _, _, err := yamlutils.GetPolicy([]byte(text))
	if err != nil || len(policies) != 1 {
		t.Fatalf("%d policies, %v:\n%s", len(policies), err, text)
	}
	// What Kyverno's webhook for policies says.
	if _, err := validation.Validate(policies[0], nil, nil, true, "", ""); err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	cfg := config.NewDefaultConfiguration(false)
	jp := jmespath.New(cfg)
	e := engine.NewEngine(cfg, jp, nil,
		factories.DefaultRegistryClientFactory(adapters.RegistryClient(nil), nil),
		imageverifycache.DisabledImageVerifyCache(), factories.DefaultContextLoaderFactory(nil), nil, nil)
	return func(t *testing.T, c plan.Check) (map[string]any, string) {
		req := plan.AdmissionRequest(t, c)
		mutated, reason := evaluate(t, jp, cfg, policies[0], req, c, e.Mutate)
		if reason != "" || c.Operation == "DELETE" {
			return plan.Object(t, c.Object), reason
		}
		req.Object = runtime.RawExtension{Raw: plan.JSON(t, mutated)}
		_, reason = evaluate(t, jp, cfg, policies[0], req, c, e.Validate)
		return mutated, reason
	}
}

// documents decodes each document of text into the target for its kind.
func documents(t *testing.T, text string, into map[string]any) {
	t.Helper()
	for _, doc := range strings.Split(text, "\n---\n") {
		var kind struct{ Kind string }
		if err := yaml.Unmarshal([]byte(doc), &kind); err != nil {
			t.Fatal(err)
		}
		if target, ok := into[kind.Kind]; ok {
			if err := yaml.UnmarshalStrict([]byte(doc), target); err != nil {
				t.Fatalf("%s: %v\n%s", kind.Kind, err, doc)
			}
		}
	}
}

// evaluate runs one phase of the engine, and returns what the object becomes
// and what denies the request, or "".
func evaluate(t *testing.T, jp jmespath.Interface, cfg config.Configuration, policy kyvernov1.PolicyInterface, req admissionv1.AdmissionRequest, c plan.Check, phase phase) (map[string]any, string) {
	t.Helper()
	pc, err := engine.NewPolicyContextFromAdmissionRequest(jp, req, kyvernov2.RequestInfo{}, schema.GroupVersionKind(req.Kind), cfg)
	if err != nil {
		return nil, err.Error()
	}
	r := phase(t.Context(), pc.WithPolicy(policy).WithNamespaceLabels(c.NSLabels))
	return r.PatchedResource.Object, failure(r.PolicyResponse.Rules)
}

type phase func(ctx context.Context, policyContext engineapi.PolicyContext) engineapi.EngineResponse

// failure returns what denies the request, or "".
func failure(rules []engineapi.RuleResponse) string {
	var reasons []string
	for _, rule := range rules {
		if s := rule.Status(); s == engineapi.RuleStatusFail || s == engineapi.RuleStatusError {
			reasons = append(reasons, rule.Name()+": "+rule.Message())
		}
	}
	return strings.Join(reasons, "; ")
}
