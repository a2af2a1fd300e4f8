package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	documents "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/yaml"
)

// kinds are the types that the manifests may hold.
var kinds = map[meta.TypeMeta]func() any{
	{APIVersion: "apps/v1", Kind: "Deployment"}:                             func() any { return new(apps.Deployment) },
	{APIVersion: "autoscaling/v2", Kind: "HorizontalPodAutoscaler"}:         func() any { return new(autoscaling.HorizontalPodAutoscaler) },
	{APIVersion: "v1", Kind: "Service"}:                                     func() any { return new(core.Service) },
	{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy"}:             func() any { return new(networking.NetworkPolicy) },
	{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"}:                  func() any { return new(policy.PodDisruptionBudget) },
	{APIVersion: types.KustomizationVersion, Kind: types.KustomizationKind}: func() any { return new(types.Kustomization) },
}

// checkManifests decodes every document of a file strictly.
func checkManifests(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var errs []error
	reader := documents.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for n := 1; ; n++ {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return errors.Join(errs...)
		}
		if err == nil {
			err = checkManifest(document)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s, document %d: %w", path, n, err))
		}
	}
}

func checkManifest(document []byte) error {
	var found meta.TypeMeta
	if err := yaml.Unmarshal(document, &found); err != nil {
		return err
	}
	empty := kinds[found]
	if empty == nil {
		return fmt.Errorf("no type is known for apiVersion %q, kind %q", found.APIVersion, found.Kind)
	}
	object := empty()
	if err := yaml.UnmarshalStrict(document, object); err != nil {
		return fmt.Errorf("%s: %w", found.Kind, err)
	}
	if named, ok := object.(meta.Object); ok && (named.GetName() == "" || named.GetNamespace() != "") {
		return fmt.Errorf("%s: expected a name (%q) and no namespace (%q): kubectl chooses the namespace", found.Kind, named.GetName(), named.GetNamespace())
	}
	return nil
}
