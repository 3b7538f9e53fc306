// Package v1136 evaluates the policies with the engine of Kyverno 1.13.6.
package v1136

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
	"github.com/kyverno/kyverno/pkg/imageverifycache"
	yamlutils "github.com/kyverno/kyverno/pkg/utils/yaml"
	validation "github.com/kyverno/kyverno/pkg/validation/policy"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/clusterimage/sealer/redirect/policytest/plan"
)

func TestPolicies(t *testing.T) {
	plan.Run(t, "1.13.6", func(t *testing.T, p plan.Policy) plan.Evaluator {
		if p.Engine != "clusterpolicy" {
			return nil
		}
		return clusterPolicy(t, p.YAML)
	})
}

func clusterPolicy(t *testing.T, text string) plan.Evaluator {
	policies, _, _, err := yamlutils.GetPolicy([]byte(text))
	if err != nil || len(policies) != 1 {
		t.Fatalf("%d policies, %v:\n%s", len(policies), err, text)
	}
	// What Kyverno's webhook for policies says.
	if _, err := validation.Validate(policies[0], nil, nil, nil, true, "", ""); err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	cfg := config.NewDefaultConfiguration(false)
	jp := jmespath.New(cfg)
	e := engine.NewEngine(cfg, config.NewDefaultMetricsConfiguration(), jp, nil,
		factories.DefaultRegistryClientFactory(adapters.RegistryClient(nil), nil),
		imageverifycache.DisabledImageVerifyCache(), factories.DefaultContextLoaderFactory(nil), nil)
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

// failure returns what denies the request, or "".
func failure(r engineapi.EngineResponse) string {
	var reasons []string
	for _, rule := range r.PolicyResponse.Rules {
		if s := rule.Status(); s == engineapi.RuleStatusFail || s == engineapi.RuleStatusError {
			reasons = append(reasons, rule.Name()+": "+rule.Message())
		}
	}
	return strings.Join(reasons, "; ")
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
	return r.PatchedResource.Object, failure(r)
}

type phase func(ctx context.Context, policyContext engineapi.PolicyContext) engineapi.EngineResponse
