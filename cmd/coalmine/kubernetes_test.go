package main

import (
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"coalmine/dashboards"
	"coalmine/internal/childprocess"
	"coalmine/internal/must"
	"coalmine/internal/queue"
)

// manifest holds the fields of a Kubernetes object that the tests need. Its
// schema is checked by scripts/check-deploy.sh.
type manifest struct {
	Kind     string
	Metadata struct{ Name string }
	Spec     struct {
		Selector any // of a Service the labels, else in matchLabels
		Ports    []struct {
			Port       int
			TargetPort string `yaml:"targetPort"`
		}
		ScaleTargetRef struct{ Name string } `yaml:"scaleTargetRef"`
		PodSelector    any                   `yaml:"podSelector"`
		Template       struct {
			Metadata struct{ Labels map[string]string }
			Spec     podSpec
		}
	}
}

type podSpec struct {
	TerminationGracePeriodSeconds int `yaml:"terminationGracePeriodSeconds"`
	SecurityContext               struct {
		RunAsNonRoot bool `yaml:"runAsNonRoot"`
	} `yaml:"securityContext"`
	Containers []container
	Volumes    []struct {
		Name   string
		Secret struct {
			Items []struct{ Key, Path string }
		}
	}
}

type container struct {
	Image string
	Args  []string
	Env   []struct {
		Name, Value string
		ValueFrom   struct {
			SecretKeyRef struct{ Name, Key string } `yaml:"secretKeyRef"`
		} `yaml:"valueFrom"`
	}
	Ports []struct {
		Name          string
		ContainerPort int `yaml:"containerPort"`
	}
	LivenessProbe  probe `yaml:"livenessProbe"`
	ReadinessProbe probe `yaml:"readinessProbe"`
}

// probe is a health check over HTTP.
type probe struct {
	HTTPGet struct{ Path, Port string } `yaml:"httpGet"`
}

func readManifests(t *testing.T) []manifest {
	t.Helper()
	paths, err := filepath.Glob(filepath.FromSlash("../../deploy/kubernetes/*.yaml"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no manifests: %v", err)
	}
	var all []manifest
	for _, path := range paths {
		data := contentOf(t, path)
		for d := yaml.NewDecoder(strings.NewReader(data)); ; {
			var m manifest
			if err := d.Decode(&m); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			all = append(all, m)
		}
	}
	return all
}

func deployments(t *testing.T) []manifest {
	all := slices.DeleteFunc(readManifests(t), func(m manifest) bool { return m.Kind != "Deployment" })
	if len(all) != 2 {
		t.Fatalf("%d deployments, want those of coordinator and worker", len(all))
	}
	return all
}

// flagsOf parses a container's arguments as the program does, without running it.
func flagsOf(t *testing.T, c container) func(name string) string {
	t.Helper()
	root := newRoot(io.Discard, io.Discard)
	command, rest, err := root.Find(c.Args)
	if err == nil {
		err = command.ParseFlags(rest)
	}
	if err == nil {
		err = command.ValidateArgs(command.Flags().Args())
	}
	if err != nil || command == root {
		t.Fatalf("arguments %q: %v", c.Args, err)
	}
	return func(name string) string {
		f := command.Flags().Lookup(name)
		if f == nil {
			t.Fatalf("%s has no --%s", command.Name(), name)
		}
		return f.Value.String()
	}
}

func TestKubernetesPodsMatchProgram(t *testing.T) {
	t.Parallel()
	for _, d := range deployments(t) {
		pod := d.Spec.Template.Spec
		c := pod.Containers[0]
		flag := flagsOf(t, c)
		if len(pod.Containers) != 1 || c.Image != "coalmine" || !pod.SecurityContext.RunAsNonRoot {
			t.Errorf("%s: %d containers, image %q, non-root %v", d.Metadata.Name, len(pod.Containers), c.Image, pod.SecurityContext.RunAsNonRoot)
		}
		_, port, err := net.SplitHostPort(flag("listen"))
		if err != nil || len(c.Ports) != 1 || strconv.Itoa(c.Ports[0].ContainerPort) != port {
			t.Errorf("%s listens on %q, its ports are %v", d.Metadata.Name, flag("listen"), c.Ports)
		}
		token, err := filepath.Rel("/etc/coalmine", flag("token-file"))
		if err != nil || !mounted(pod, token) {
			t.Errorf("%s: --token-file=%s is not mounted", d.Metadata.Name, flag("token-file"))
		}
		for _, p := range []probe{c.LivenessProbe, c.ReadinessProbe} {
			if p.HTTPGet.Port != c.Ports[0].Name {
				t.Errorf("%s: a probe of port %q, want %q", d.Metadata.Name, p.HTTPGet.Port, c.Ports[0].Name)
			}
		}
	}
}

// mounted reports whether a file of a secret is there under a name.
func mounted(pod podSpec, file string) bool {
	for _, v := range pod.Volumes {
		for _, item := range v.Secret.Items {
			if item.Path == file {
				return true
			}
		}
	}
	return false
}

// stopping is the time of a worker after its grace: stopped tasks return, and three seconds are
// for the farewell.
const stopping = queue.StopGrace + 3*time.Second

// A command has its time to end, and ten seconds are left to store its saved state.
func TestStopGraceExceedsCommandGrace(t *testing.T) {
	t.Parallel()
	if least := childprocess.DefaultGrace + 10*time.Second; queue.StopGrace < least {
		t.Errorf("a stopped task is left behind after %v; expected at least %v", queue.StopGrace, least)
	}
}

func TestKubernetesGraceExceedsWorkerGrace(t *testing.T) {
	t.Parallel()
	for _, d := range deployments(t) {
		pod := d.Spec.Template.Spec
		if pod.Containers[0].Args[0] != "worker" {
			continue
		}
		grace, err := time.ParseDuration(flagsOf(t, pod.Containers[0])("grace"))
		if left := time.Duration(pod.TerminationGracePeriodSeconds)*time.Second - grace; err != nil || left < stopping {
			t.Errorf("%d seconds until the pod is killed for a grace of %s: %v", pod.TerminationGracePeriodSeconds, grace, err)
		}
	}
}

func TestKubernetesProbesAreServed(t *testing.T) {
	t.Parallel()
	monitor := must.Get(dashboards.NewMonitor(dashboards.Options{}))(t)
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	served := make(chan error, 1)
	go func() { served <- monitor.Serve(t.Context(), l) }()
	t.Cleanup(func() { <-served })
	for _, d := range deployments(t) {
		c := d.Spec.Template.Spec.Containers[0]
		if c.LivenessProbe.HTTPGet.Path == c.ReadinessProbe.HTTPGet.Path {
			t.Errorf("%s: one path for both probes: a store that is away would have it restarted", d.Metadata.Name)
		}
		for _, p := range []probe{c.LivenessProbe, c.ReadinessProbe} {
			response, err := http.Get("http://" + l.Addr().String() + p.HTTPGet.Path)
			if err != nil || response.StatusCode != http.StatusOK {
				t.Fatalf("%s: probe %s: %v, %v", d.Metadata.Name, p.HTTPGet.Path, response, err)
			}
			response.Body.Close()
		}
	}
}

// Every secret stands in the secret that the documentation makes, and every
// variable is one that the program or the S3 driver reads.
func TestKubernetesPodsReferenceSecrets(t *testing.T) {
	t.Parallel()
	documented := secretKeys(t)
	known := newRoot(io.Discard, io.Discard).PersistentFlags().FlagUsages() + " (AWS_ACCESS_KEY_ID) (AWS_SECRET_ACCESS_KEY)"
	for _, d := range deployments(t) {
		pod := d.Spec.Template.Spec
		var keys []string
		for _, v := range pod.Containers[0].Env {
			if v.Value != "" || v.ValueFrom.SecretKeyRef.Name != "coalmine" {
				t.Errorf("%s: %s is not taken from the secret coalmine", d.Metadata.Name, v.Name)
			}
			if !strings.Contains(known, v.Name) {
				t.Errorf("%s: nothing reads %s", d.Metadata.Name, v.Name)
			}
			keys = append(keys, v.ValueFrom.SecretKeyRef.Key)
		}
		for _, v := range pod.Volumes {
			for _, item := range v.Secret.Items {
				keys = append(keys, item.Key)
			}
		}
		for _, key := range keys {
			if !slices.Contains(documented, key) {
				t.Errorf("%s: docs/operations.md does not put %s into the secret", d.Metadata.Name, key)
			}
		}
	}
}

// secretKeys are those of the command in docs/operations.md.
func secretKeys(t *testing.T) []string {
	var keys []string
	for _, m := range regexp.MustCompile(`--from-(?:literal|file)=([a-z-]+)=`).FindAllStringSubmatch(contentOf(t, "../../docs/operations.md"), -1) {
		keys = append(keys, m[1])
	}
	if len(keys) == 0 {
		t.Fatal("docs/operations.md makes no secret")
	}
	return keys
}

// Services, budgets, policies and the autoscaler are about pods that there are.
func TestKubernetesObjectsSelectPods(t *testing.T) {
	t.Parallel()
	pods := deployments(t)
	for _, m := range readManifests(t) {
		selector := m.Spec.Selector
		switch m.Kind {
		case "Kustomization":
			continue
		case "HorizontalPodAutoscaler":
			if !slices.ContainsFunc(pods, func(d manifest) bool { return d.Metadata.Name == m.Spec.ScaleTargetRef.Name }) {
				t.Errorf("it scales %q, which is no deployment", m.Spec.ScaleTargetRef.Name)
			}
			continue
		case "NetworkPolicy":
			selector = m.Spec.PodSelector
		}
		d := selected(pods, selector)
		if d == nil {
			t.Errorf("%s %s selects no pod: %v", m.Kind, m.Metadata.Name, selector)
			continue
		}
		port := d.Spec.Template.Spec.Containers[0].Ports[0]
		for _, p := range m.Spec.Ports {
			if p.TargetPort != port.Name || p.Port != port.ContainerPort {
				t.Errorf("%s %s: port %d to %q, the pod has %d as %q", m.Kind, m.Metadata.Name, p.Port, p.TargetPort, port.ContainerPort, port.Name)
			}
		}
	}
}

// selected is the deployment whose pods have all labels of a selector.
func selected(pods []manifest, selector any) *manifest {
	labels, _ := selector.(map[string]any)
	if inner, ok := labels["matchLabels"].(map[string]any); ok {
		labels = inner
	}
	for i := range pods {
		fits := len(labels) > 0
		for name, value := range labels {
			fits = fits && pods[i].Spec.Template.Metadata.Labels[name] == value
		}
		if fits {
			return &pods[i]
		}
	}
	return nil
}

// Prometheus asks at services that there are, and alerts and the autoscaler look
// at metrics that the documentation lists (a test of a cluster holds it to those
// that are told).
func TestPrometheusTargetsAndMetricsExist(t *testing.T) {
	t.Parallel()
	services := map[string]bool{}
	for _, m := range readManifests(t) {
		for _, p := range m.Spec.Ports {
			services[m.Metadata.Name+", type: A, port: "+strconv.Itoa(p.Port)] = true
		}
	}
	targets := regexp.MustCompile(`names: \[([a-z-]+)\](, type: A, port: \d+)`).FindAllStringSubmatch(contentOf(t, "../../deploy/prometheus/prometheus.yaml"), -1)
	if len(targets) != 2 {
		t.Errorf("%d targets", len(targets))
	}
	for _, m := range targets {
		if !services[m[1]+m[2]] {
			t.Errorf("no service is %s%s", m[1], m[2])
		}
	}
	documented := contentOf(t, "../../docs/operations.md")
	asked := regexp.MustCompile(`coalmine_\w+`).FindAllString(contentOf(t, "../../deploy/prometheus/alerts.yaml")+contentOf(t, "../../deploy/kubernetes/autoscaler.yaml"), -1)
	for _, name := range asked {
		if name != "coalmine_work" && !strings.Contains(documented, "|`"+name) {
			t.Errorf("%s is not a metric of docs/operations.md", name)
		}
	}
}
