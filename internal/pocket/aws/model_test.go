package aws

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/windlass-run/windlass/internal/pocket/awsjson"
	"github.com/windlass-run/windlass/internal/testneed"
)

var update = flag.Bool("update", false, "write the models of the services from the botocore that is installed")

// modelFiles says where each JSON service keeps its constraints, and which
// model of botocore they are taken from.
var modelFiles = []struct{ name, file, source string }{
	{"ecs", "../ecs/model.json", "ecs/2014-11-13"},
	{"batch", "../batch/model.json", "batch/2016-08-10"},
	{"logs", "../logs/model.json", "logs/2014-03-28"},
	{"secretsmanager", "../secretsmanager/model.json", "secretsmanager/2017-10-17"},
	{"ssm", "../ssm/model.json", "ssm/2014-11-06"},
	{"application-autoscaling", "../autoscaling/model.json", "application-autoscaling/2016-02-06"},
	{"eks", "../eks/model.json", "eks/2017-11-01"},
}

// botocore returns the folder of AWS's models and botocore's version.
func botocore(t testing.TB) (folder, version string) {
	t.Helper()
	found, err := findBotocore()
	if err != nil {
		testneed.Missing(t, "botocore, AWS's models", err, "run scripts/setup-test, which installs awscli")
	}
	return found[0], found[1]
}

// findBotocore asks python once for all tests: the one in PATH, and that of the
// system. Debian's awscli carries botocore inside itself.
var findBotocore = sync.OnceValues(func() (found []string, err error) {
	const find = `
try:
    import botocore
except ImportError:
    from awscli import botocore
import os
print(os.path.join(os.path.dirname(botocore.__file__), "data"), botocore.__version__)`
	var errs []error
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		// A test's context may have ended: this is also called by cleanups.
		out, err := exec.CommandContext(context.Background(), python, "-c", find).CombinedOutput()
		if found = strings.Fields(string(out)); err == nil && len(found) == 2 {
			return found, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w: %s", python, err, out))
	}
	return nil, errors.Join(errs...)
})

// readModel returns botocore's model of a service, whole.
func readModel(t testing.TB, folder, source string) []byte {
	t.Helper()
	name := filepath.Join(folder, filepath.FromSlash(source), "service-2.json")
	if data, err := os.ReadFile(name); err == nil {
		return data
	}
	f, err := os.Open(name + ".gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// prune keeps what the inputs of some operations need.
func prune(t testing.TB, data []byte, actions []string) []byte {
	t.Helper()
	var whole awsjson.Model
	if err := json.Unmarshal(data, &whole); err != nil {
		t.Fatal(err)
	}
	small := awsjson.Model{Operations: map[string]awsjson.Operation{}, Shapes: map[string]*awsjson.Shape{}}
	var keep func(ref *awsjson.Ref)
	keep = func(ref *awsjson.Ref) {
		if ref == nil || small.Shapes[ref.Shape] != nil {
			return
		}
		s := whole.Shapes[ref.Shape]
		small.Shapes[ref.Shape] = s
		for _, m := range s.Members {
			keep(&m)
		}
		keep(s.Member)
		keep(s.Key)
		keep(s.Value)
	}
	for _, a := range actions {
		op, ok := whole.Operations[a]
		if !ok {
			t.Errorf("botocore knows no operation %s", a)
		}
		keep(op.Input)
		small.Operations[a] = awsjson.Operation{Input: op.Input}
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := enc.Encode(small); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestModels checks that the constraints that the services keep are those of
// AWS's published models, for every operation that they offer.
func TestModels(t *testing.T) {
	folder, version := botocore(t)
	server := newServer(t, Options{})
	for _, m := range modelFiles {
		i := slices.IndexFunc(server.services, func(s *awsjson.Service) bool { return s.Name == m.name })
		if i < 0 {
			t.Errorf("no service %s", m.name)
			continue
		}
		if !*update && version != modelVersion {
			t.Logf("botocore is %s, the models are from %s: not compared", version, modelVersion)
			continue
		}
		actions := server.services[i].Actions()
		slices.Sort(actions)
		want := prune(t, readModel(t, folder, m.source), actions)
		if *update {
			if err := os.WriteFile(m.file, want, 0o600); err != nil {
				t.Fatal(err)
			}
			continue
		}
		got, err := os.ReadFile(m.file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not what botocore %s says: go test ./internal/pocket/aws -run Models -update", m.file, version)
		}
	}
}

// modelVersion is the botocore that the models were written from.
const modelVersion = "1.43.11"
