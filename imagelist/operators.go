package imagelist

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	"go.yaml.in/yaml/v3"

	"github.com/clusterimage/sealer/registry/ref"
)

// An operator describes a kind of custom resource whose controller
// derives an image from other fields than an image's.
type operator struct {
	group, kind string
	// image is the reference, with {path} for the text of a field,
	// {path|default} for one that may be missing and {path#v} for one whose
	// leading v is cut. "" says that the image is compiled into the operator.
	image string
	// unless is a field that names the image itself; then nothing is derived.
	unless string
	// when is a range that spec.version must lie in, "" for any.
	when string
}

// operators is data: it follows the documentation or the code of each operator.
// It is no list of images, only of how they are derived.
var operators = []operator{
	// Elastic Cloud on Kubernetes: kind and version.
	{"elasticsearch.k8s.elastic.co", "Elasticsearch", "docker.elastic.co/elasticsearch/elasticsearch:{spec.version}", "spec.image", ""},
	{"kibana.k8s.elastic.co", "Kibana", "docker.elastic.co/kibana/kibana:{spec.version}", "spec.image", ""},
	{"apm.k8s.elastic.co", "ApmServer", "docker.elastic.co/apm/apm-server:{spec.version}", "spec.image", ""},
	{"enterprisesearch.k8s.elastic.co", "EnterpriseSearch", "docker.elastic.co/enterprise-search/enterprise-search:{spec.version}", "spec.image", ""},
	{"beat.k8s.elastic.co", "Beat", "docker.elastic.co/beats/{spec.type}:{spec.version}", "spec.image", ""},
	{"agent.k8s.elastic.co", "Agent", "docker.elastic.co/elastic-agent/elastic-agent:{spec.version}", "spec.image", ">=9.0.0-0"},
	{"agent.k8s.elastic.co", "Agent", "docker.elastic.co/beats/elastic-agent:{spec.version}", "spec.image", "<9.0.0-0"},
	{"maps.k8s.elastic.co", "ElasticMapsServer", "docker.elastic.co/elastic-maps-service/elastic-maps-server:{spec.version}", "spec.image", ">=8.16.0-0"},
	{"maps.k8s.elastic.co", "ElasticMapsServer", "docker.elastic.co/elastic-maps-service/elastic-maps-server-ubi:{spec.version}", "spec.image", ">=8.12.0-0 <8.16.0-0"},
	{"maps.k8s.elastic.co", "ElasticMapsServer", "docker.elastic.co/elastic-maps-service/elastic-maps-server-ubi8:{spec.version}", "spec.image", "<8.12.0-0"},
	{"logstash.k8s.elastic.co", "Logstash", "docker.elastic.co/logstash/logstash:{spec.version}", "spec.image", ""},
	{"packageregistry.k8s.elastic.co", "PackageRegistry", "docker.elastic.co/package-registry/distribution:{spec.version}", "spec.image", ""},

	// The Prometheus operator, when neither the object nor a flag says more.
	{"monitoring.coreos.com", "Prometheus", "{spec.baseImage|quay.io/prometheus/prometheus}:{spec.version}", "spec.image", ""},
	{"monitoring.coreos.com", "PrometheusAgent", "quay.io/prometheus/prometheus:{spec.version}", "spec.image", ""},
	{"monitoring.coreos.com", "Alertmanager", "{spec.baseImage|quay.io/prometheus/alertmanager}:{spec.version}", "spec.image", ""},
	{"monitoring.coreos.com", "ThanosRuler", "quay.io/thanos/thanos:{spec.version}", "spec.image", ""},

	// Search and databases.
	{"opensearch.opster.io", "OpenSearchCluster", "docker.io/opensearchproject/opensearch:{spec.general.version}", "spec.general.image", ""},
	{"opensearch.opster.io", "OpenSearchCluster", "docker.io/opensearchproject/opensearch-dashboards:{spec.dashboards.version}", "spec.dashboards.image", ""},
	{"opensearch.org", "OpenSearchCluster", "docker.io/opensearchproject/opensearch:{spec.general.version}", "spec.general.image", ""},
	{"opensearch.org", "OpenSearchCluster", "docker.io/opensearchproject/opensearch-dashboards:{spec.dashboards.version}", "spec.dashboards.image", ""},
	{"mongodbcommunity.mongodb.com", "MongoDBCommunity", "quay.io/mongodb/mongodb-community-server:{spec.version}-ubi8", "", ""},
	{"mysql.oracle.com", "InnoDBCluster", "container-registry.oracle.com/mysql/community-server:{spec.version}", "spec.imageRepository", ""},
	{"mysql.oracle.com", "InnoDBCluster", "container-registry.oracle.com/mysql/community-router:{spec.router.version|spec.version}", "spec.imageRepository", ""},
	{"cassandra.datastax.com", "CassandraDatacenter", "docker.io/k8ssandra/cass-management-api:{spec.serverVersion}-ubi", "spec.serverImage", ""},
	{"k8ssandra.io", "K8ssandraCluster", "docker.io/k8ssandra/cass-management-api:{spec.cassandra.serverVersion}-ubi", "spec.cassandra.serverImage", ""},
	{"scylla.scylladb.com", "ScyllaCluster", "{spec.repository|docker.io/scylladb/scylla}:{spec.version}", "", ""},
	{"scylla.scylladb.com", "ScyllaCluster", "{spec.agentRepository|docker.io/scylladb/scylla-manager-agent}:{spec.agentVersion}", "", ""},
	{"crdb.cockroachlabs.com", "CrdbCluster", "docker.io/cockroachdb/cockroach:{spec.cockroachDBVersion}", "spec.image.name", ""},
	{"nats.io", "NatsCluster", "{spec.serverImage|docker.io/library/nats}:{spec.version}", "", ""},
	{"etcd.database.coreos.com", "EtcdCluster", "{spec.repository|quay.io/coreos/etcd}:v{spec.version#v}", "", ""},
	{"operator.etcd.io", "EtcdCluster", "gcr.io/etcd-development/etcd:v{spec.version#v}", "spec.image", ""},
	{"solr.apache.org", "SolrCloud", "{spec.solrImage.repository|docker.io/library/solr}:{spec.solrImage.tag}", "", ""},
	{"hazelcast.com", "ManagementCenter", "{spec.repository|docker.io/hazelcast/management-center}:{spec.version}", "", ""},
	{"temporal.io", "TemporalCluster", "{spec.image|docker.io/temporalio/server}:{spec.version}", "", ""},
	{"zookeeper.pravega.io", "ZookeeperCluster", "{spec.image.repository|docker.io/pravega/zookeeper}:{spec.image.tag}", "", ""},

	// Clusters and meshes.
	{"install.istio.io", "IstioOperator", "{spec.hub|docker.io/istio}/pilot:{spec.tag}", "spec.values.pilot.image", ""},
	{"install.istio.io", "IstioOperator", "{spec.hub|docker.io/istio}/proxyv2:{spec.tag}", "spec.values.global.proxy.image", ""},
	{"sailoperator.io", "Istio", "docker.io/istio/pilot:{spec.version#v}", "", ""},
	{"sailoperator.io", "Istio", "docker.io/istio/proxyv2:{spec.version#v}", "", ""},
	{"upgrade.cattle.io", "Plan", "{spec.upgrade.image}:{spec.version}", "", ""},
	{"kamaji.clastix.io", "TenantControlPlane", "registry.k8s.io/kube-apiserver:{spec.kubernetes.version}", "", ""},
	{"kamaji.clastix.io", "TenantControlPlane", "registry.k8s.io/kube-controller-manager:{spec.kubernetes.version}", "", ""},
	{"kamaji.clastix.io", "TenantControlPlane", "registry.k8s.io/kube-scheduler:{spec.kubernetes.version}", "", ""},
	{"grafana.integreatly.org", "Grafana", "docker.io/grafana/grafana:{spec.version}", "", ""},

	// Compiled into the operator, unless the object says otherwise.
	{"postgresql.cnpg.io", "Cluster", "", "spec.imageName", ""},
	{"postgresql.cnpg.io", "Pooler", "", "spec.template.spec.containers", ""},
	{"rabbitmq.com", "RabbitmqCluster", "", "spec.image", ""},
	{"databases.spotahome.com", "RedisFailover", "", "spec.redis.image", ""},
	{"minio.min.io", "Tenant", "", "spec.image", ""},
	{"dragonflydb.io", "Dragonfly", "", "spec.image", ""},
	{"database.arangodb.com", "ArangoDeployment", "", "spec.image", ""},
	{"clickhouse.altinity.com", "ClickHouseInstallation", "", "spec.templates.podTemplates", ""},
	{"jaegertracing.io", "Jaeger", "", "spec.allInOne.image", ""},
	{"opentelemetry.io", "OpenTelemetryCollector", "", "spec.image", ""},
	{"datadoghq.com", "DatadogAgent", "", "spec.override.nodeAgent.image", ""},
	{"kiali.io", "Kiali", "", "spec.deployment.image_name", ""},
	{"operator.tigera.io", "Installation", "", "", ""},
	{"operator.tigera.io", "APIServer", "", "", ""},
	{"operator.knative.dev", "KnativeServing", "", "spec.registry", ""},
	{"operator.knative.dev", "KnativeEventing", "", "spec.registry", ""},
	{"operator.tekton.dev", "TektonConfig", "", "", ""},
	{"operator.victoriametrics.com", "VMSingle", "docker.io/victoriametrics/victoria-metrics:{spec.image.tag}", "spec.image.repository", ""},
	{"operator.victoriametrics.com", "VMAgent", "docker.io/victoriametrics/vmagent:{spec.image.tag}", "spec.image.repository", ""},
	{"operator.victoriametrics.com", "VMAlert", "docker.io/victoriametrics/vmalert:{spec.image.tag}", "spec.image.repository", ""},
	{"operator.victoriametrics.com", "VMAuth", "docker.io/victoriametrics/vmauth:{spec.image.tag}", "spec.image.repository", ""},
	{"operator.victoriametrics.com", "VMAlertmanager", "docker.io/prom/alertmanager:{spec.image.tag}", "spec.image.repository", ""},
	{"operator.victoriametrics.com", "VMCluster", "docker.io/victoriametrics/vmstorage:{spec.vmstorage.image.tag}", "spec.vmstorage.image.repository", ""},
	{"operator.victoriametrics.com", "VMCluster", "docker.io/victoriametrics/vmselect:{spec.vmselect.image.tag}", "spec.vmselect.image.repository", ""},
	{"operator.victoriametrics.com", "VMCluster", "docker.io/victoriametrics/vminsert:{spec.vminsert.image.tag}", "spec.vminsert.image.repository", ""},
	{"logging.banzaicloud.io", "Logging", "", "spec.fluentd.image", ""},
	{"stackgres.io", "SGCluster", "", "", ""},
	{"planetscale.com", "VitessCluster", "", "spec.images", ""},
	{"postgres-operator.crunchydata.com", "PostgresCluster", "", "spec.image", ""},
	{"awx.ansible.com", "AWX", "", "spec.image", ""},
	{"trident.netapp.io", "TridentOrchestrator", "", "spec.tridentImage", ""},
	{"kafka.banzaicloud.io", "KafkaCluster", "", "spec.clusterImage", ""},
	{"juicefs.io", "CacheGroup", "", "spec.worker.template.image", ""},
	{"scylla.scylladb.com", "ScyllaOperatorConfig", "", "spec.scyllaUtilsImage", ""},
	{"scylla.scylladb.com", "NodeConfig", "", "", ""},
	{"solr.apache.org", "SolrPrometheusExporter", "{spec.image.repository|docker.io/library/solr}:{spec.image.tag}", "", ""},
	{"goharbor.io", "HarborCluster", "", "spec.imageSource", ""},
	{"apps.gitlab.com", "GitLab", "", "", ""},
	{"helm.cattle.io", "HelmChart", "", "", ""},
	{"helm.toolkit.fluxcd.io", "HelmRelease", "", "", ""},
	{"argoproj.io", "ArgoCD", "", "spec.image", ""},
	{"argoproj.io", "Application", "", "", ""},
	{"argoproj.io", "ApplicationSet", "", "", ""},
	{"kustomize.toolkit.fluxcd.io", "Kustomization", "", "", ""},
	{"source.toolkit.fluxcd.io", "OCIRepository", "", "", ""},
	{"source.toolkit.fluxcd.io", "GitRepository", "", "", ""},
	{"source.toolkit.fluxcd.io", "HelmChart", "", "", ""},
	{"source.toolkit.fluxcd.io", "Bucket", "", "", ""},
	{"fleet.cattle.io", "GitRepo", "", "", ""},
	{"operators.coreos.com", "Subscription", "", "", ""},
	{"olm.operatorframework.io", "ClusterExtension", "", "", ""},
}

var (
	operatorGap = cause{Doubtful, "operator", "the operator pulls an image that is compiled into it",
		"add the operator's images to manifests/imageList, and declare it in " + RulesFile + ": gap {subject} because REASON"}
	installerGap = cause{Open, "elsewhere", "installs a chart or manifests from elsewhere; their images are not in these files",
		"put the chart into charts/ or add its images to manifests/imageList, and declare it in " + RulesFile + ": gap {subject} because REASON"}
)

// installers are kinds that bring whole charts, operators or directories of
// manifests from elsewhere.
var installers = map[string]bool{"HelmChart": true, "HelmRelease": true, "Application": true, "ApplicationSet": true,
	"Kustomization": true, "GitRepo": true, "OCIRepository": true, "GitRepository": true, "Bucket": true, "Subscription": true, "ClusterExtension": true}

// A family is an operator whose other images stand beside its own: same
// registry, same tag, other names.
type family struct {
	operator    string   // the last segment of the operator's repository
	group, kind string   // the object that makes it start the others
	members     []string // the last segments of theirs
}

var families = []family{
	{"virt-operator", "kubevirt.io", "KubeVirt", []string{"virt-api", "virt-controller", "virt-handler", "virt-launcher", "virt-exportproxy", "virt-exportserver"}},
}

// addFamilies derives the images of the families whose operator and object
// were both found, where the operator's manifest does not name them.
func (s *scanner) addFamilies() {
	for _, fam := range families {
		for _, f := range slices.Clone(s.res.Found) {
			dir, name := path.Split(f.Reference.Repository)
			if name != fam.operator || f.Reference.Tag == "" || !f.Confidence.Mirrored() || !s.kinds[fam.group+"/"+fam.kind] {
				continue
			}
			for _, m := range fam.members {
				g := f
				g.Reference.Repository, g.Reference.Digest = dir+m, ""
				if g.Rule, g.Confidence = "operator", Medium; !s.names(g.Reference.Registry, g.Reference.Repository) {
					g.Source, g.Written = g.Reference, g.Reference.String()
					s.res.Found = append(s.res.Found, g)
				}
			}
		}
	}
}

// ownSettings lets an operator's own settings decide over the constants of the
// table: an image that the environment, an argument or a ConfigMap names under
// the same last name takes the place of the one that the table derived, with a
// tag of its own or, where they name a repository alone, with the table's.
func (s *scanner) ownSettings() {
	for i := range s.res.Found {
		f := &s.res.Found[i]
		if f.Rule != "operator" {
			continue
		}
		if own := s.ownRepository(*f); own != (ref.Reference{}) {
			f.Reference.Registry, f.Reference.Repository = own.Registry, own.Repository
			f.Source, f.Written = f.Reference, f.Reference.String()
		}
	}
	all := slices.Clone(s.res.Found) // DeleteFunc moves the elements that it reads
	s.res.Found = slices.DeleteFunc(s.res.Found, func(f Finding) bool {
		if f.Rule != "operator" {
			return false
		}
		i := slices.IndexFunc(all, func(g Finding) bool {
			return isSetting(g.Rule) && g.Confidence.Mirrored() && sameName(g.Reference, f.Reference) && g.Reference.Name() != f.Reference.Name()
		})
		if i < 0 {
			return false
		}
		f.Reason = "the operator's own settings name " + all[i].Written
		s.res.Rejected = append(s.res.Rejected, f)
		return true
	})
}

// ownRepository returns the repository that an operator's settings give for the
// image of f.
func (s *scanner) ownRepository(f Finding) ref.Reference {
	for _, g := range s.res.Rejected {
		if isSetting(g.Rule) && strings.HasPrefix(g.Reason, repositoryReason) && sameName(g.Reference, f.Reference) {
			return g.Reference
		}
	}
	return ref.Reference{}
}

func isSetting(rule string) bool {
	return strings.HasPrefix(rule, "env") || strings.HasPrefix(rule, "arg") || strings.HasPrefix(rule, "configmap")
}

func sameName(a, b ref.Reference) bool { return path.Base(a.Repository) == path.Base(b.Repository) }

// names reports whether any image of a repository was found.
func (s *scanner) names(registry, repository string) bool {
	return slices.ContainsFunc(s.res.Found, func(f Finding) bool {
		return f.Reference.Registry == registry && f.Reference.Repository == repository && f.Rule != "operator"
	})
}

var fieldMark = regexp.MustCompile(`\{([^{}|#]+)(?:\|([^{}]+))?(#v)?\}`)

// operator derives the images of an object of a known kind, and names the gap
// where they cannot be known. It returns the names of those it derived.
func (s *scanner) operator(p place, n *yaml.Node) map[string]bool {
	s.await(p, n)
	derived, missing, part := map[string]bool{}, false, false
	for _, op := range operators {
		if op.group != p.group || op.kind != p.kind || op.unless != "" && get(n, strings.Split(op.unless, ".")...) != nil || !inRange(op.when, text(n, "spec", "version")) {
			continue
		}
		image, line, ok := op.derive(n)
		if !ok {
			missing = missing || op.image == "" || line == 0
			part = part || op.hasPart(n)
			continue
		}
		if r, err := ref.Parse(image); err == nil && !isPlaceholder(image) {
			s.found(p, spot{line, "spec", image, "operator"}, High, r)
			derived[r.Name()] = true
		}
	}
	if missing && len(derived) == 0 || part {
		subject := strings.TrimSuffix(p.kind+"."+p.group, ".")
		if installers[p.kind] {
			s.installer(p, n)
		} else {
			s.gap(p, spot{line: n.Line}, operatorGap, subject)
		}
	}
	return derived
}

func inRange(when, version string) bool {
	if when == "" {
		return true
	}
	v, err := semver.NewVersion(version)
	if err != nil {
		return false
	}
	c, err := semver.NewConstraint(when)
	return err == nil && c.Check(v)
}

// hasPart reports whether an object has the part that the image is for:
// spec.vmselect of {spec.vmselect.image.tag}.
func (op operator) hasPart(n *yaml.Node) bool {
	m := fieldMark.FindStringSubmatch(op.image)
	if m == nil {
		return false
	}
	path := strings.Split(m[1], ".")
	return len(path) > 3 && get(n, path[:2]...) != nil
}

// derive fills in the fields. line is that of the last field used.
func (op operator) derive(n *yaml.Node) (image string, line int, ok bool) {
	ok = op.image != ""
	image = fieldMark.ReplaceAllStringFunc(op.image, func(mark string) string {
		m := fieldMark.FindStringSubmatch(mark)
		at := get(n, strings.Split(m[1], ".")...)
		if !isScalar(at) && strings.HasPrefix(m[2], "spec.") {
			at = get(n, strings.Split(m[2], ".")...)
		}
		if isScalar(at) && at.Value != "" {
			line = at.Line
			v := strings.ReplaceAll(at.Value, "+", "-") // v1.30.1+k3s1 is no tag
			if m[3] != "" {
				v = strings.TrimPrefix(v, "v")
			}
			return v
		}
		if m[2] == "" || strings.HasPrefix(m[2], "spec.") {
			ok = false
		}
		return m[2]
	})
	return image, line, ok
}
