// Checks what `helm template` has written: every document on standard input has to be an object that Kubernetes, or the
// Prometheus operator, knows, without a field that its kind does not have. It prints the kinds.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
)

func main() {
	known := runtime.NewScheme()
	utilruntime.Must(scheme.AddToScheme(known))
	utilruntime.Must(monitoring.AddToScheme(known))
	strict := json.NewSerializerWithOptions(json.DefaultMetaFactory, known, known,
		json.SerializerOptions{Yaml: true, Strict: true})

	failed := false
	documents := yaml.NewYAMLReader(bufio.NewReader(os.Stdin))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		_, kind, err := strict.Decode(document, nil, nil)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%v: %v\n", kind, err)
			failed = true
			continue
		}
		fmt.Println(kind.Kind)
	}
	if failed {
		os.Exit(1)
	}
}
