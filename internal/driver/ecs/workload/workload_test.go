package workload

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"go.uber.org/goleak"

	"github.com/windlass-run/windlass/internal/cloud/aws"
	"github.com/windlass-run/windlass/sdk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestCloneKeepsEverything makes sure that a new revision of a definition has all
// that a request may have of the old one: a member that AWS adds makes it fail.
func TestCloneKeepsEverything(t *testing.T) {
	var d types.TaskDefinition
	in := reflect.ValueOf(&ecs.RegisterTaskDefinitionInput{}).Elem().Type()
	from := reflect.ValueOf(&d).Elem()
	fill := func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Pointer:
			v.Set(reflect.New(v.Type().Elem()))
		case reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		case reflect.String:
			v.SetString("x")
		}
	}
	var shared []string
	for i := range in.NumField() {
		name := in.Field(i).Name
		if name == "InferenceAccelerators" { // AWS has given them up
			continue
		}
		if f := from.FieldByName(name); f.IsValid() && f.CanSet() {
			fill(f)
			shared = append(shared, name)
		}
	}
	got := reflect.ValueOf(clone(&definition{d, []types.Tag{{Key: new("team")}, {Key: new("aws:cloudformation")}}})).Elem()
	for _, name := range shared {
		if got.FieldByName(name).IsZero() {
			t.Errorf("%s isn't kept", name)
		}
	}
	if tags := got.FieldByName("Tags").Interface().([]types.Tag); len(tags) != 1 || *tags[0].Key != "team" {
		t.Errorf("tags %v", tags)
	}
	if len(shared) < 15 {
		t.Errorf("only %v are shared: this test looks wrong", shared)
	}
}

// TestMarkFitsATag: a mark is legal as a tag's value, and is read as it was written.
func TestMarkFitsATag(t *testing.T) {
	id := sdk.NewIDSource(sdk.SystemClock()).NewID()
	for _, want := range []string{wantCreate, wantReplace, wantCount + "100000", wantDefined + "2147483647"} {
		m := mark{op: id, want: want, deployment: "ecs-svc/" + strings.Repeat("9", 19), count: 100000}
		if msg := aws.CheckTag(tagOp, m.text()); msg != "" {
			t.Errorf("%s: %s", m.text(), msg)
		}
		if got, ok := readMark(m.text()); !ok || got != m {
			t.Errorf("%s is read as %+v", m.text(), got)
		}
	}
}

func FuzzReadMark(f *testing.F) {
	f.Add("06f3q5vyp1sg5b3kq3f1x4m2ag count:3 ecs-svc/1234567890123456789 2")
	f.Add("x new y -1")
	f.Fuzz(func(t *testing.T, text string) {
		if m, ok := readMark(text); ok {
			if again, ok := readMark(m.text()); !ok || again != m {
				t.Errorf("%q is %+v, and again %+v", text, m, again)
			}
		}
	})
}

// TestTrace judges operations by a service's mark and state.
func TestTrace(t *testing.T) {
	ids := sdk.NewIDSource(sdk.SystemClock())
	ours, other := ids.NewID(), ids.NewID()
	service := func(deployment string, count int, m mark) *types.Service {
		return &types.Service{ServiceName: new("api"), DesiredCount: int32(count), Tags: []types.Tag{{Key: new(tagOp), Value: new(m.text())}},
			Deployments: []types.Deployment{{Id: &deployment, Status: new("PRIMARY"), TaskDefinition: new("arn:aws:ecs:r:a:task-definition/f:7")}}}
	}
	scale := mark{op: ours, want: wantCount + "4", deployment: "ecs-svc/1", count: 2}
	plain := service("ecs-svc/1", 2, mark{op: other, want: wantReplace, deployment: "ecs-svc/0", count: 2})
	for name, tc := range map[string]struct {
		v      *types.Service
		before string
		want   sdk.OpState
	}{
		"no service":                       {nil, "", sdk.OpAbsent},
		"scaled":                           {service("ecs-svc/1", 4, scale), "", sdk.OpAccepted},
		"marked, not scaled":               {service("ecs-svc/1", 2, scale), "", sdk.OpAbsent},
		"marked, scaled otherwise since":   {service("ecs-svc/1", 5, scale), "", sdk.OpUnknown},
		"marked, deployed since":           {service("ecs-svc/2", 2, scale), "", sdk.OpUnknown},
		"restarted":                        {service("ecs-svc/2", 2, mark{ours, wantReplace, "ecs-svc/1", 2}), "", sdk.OpAccepted},
		"marked, not restarted":            {service("ecs-svc/1", 2, mark{ours, wantReplace, "ecs-svc/1", 2}), "", sdk.OpAbsent},
		"configured":                       {service("ecs-svc/2", 2, mark{ours, wantDefined + "7", "ecs-svc/1", 2}), "", sdk.OpAccepted},
		"marked, not configured":           {service("ecs-svc/1", 2, mark{ours, wantDefined + "8", "ecs-svc/1", 2}), "", sdk.OpAbsent},
		"another's mark, as it was before": {plain, generation(plain, other), sdk.OpAbsent},
		"another's mark":                   {plain, "1:3", sdk.OpUnknown},
		"another's mark, before unknown":   {plain, "", sdk.OpUnknown},
	} {
		if tr := trace(tc.v, ours, tc.before); tr.State != tc.want || tr.Evidence == "" {
			t.Errorf("%s: %s (%s), want %s", name, tr.State, tr.Evidence, tc.want)
		}
	}
}

// FuzzTrailer cuts output into pieces: whatever they are, it comes out the same,
// and the code with it.
func FuzzTrailer(f *testing.F) {
	f.Add([]byte("out\r\nwindlass-"), uint8(3), 7, true)
	f.Add([]byte("\r\r\n\r"), uint8(1), 255, false)
	f.Add([]byte("windlass-0000:12"), uint8(2), 0, true)
	const nonce = "windlass-0000:"
	f.Fuzz(func(t *testing.T, output []byte, size uint8, code int, told bool) {
		if bytes.Contains(output, []byte(nonce)) {
			return // nobody knows the nonce before
		}
		code = code & 0xff
		raw := bytes.ReplaceAll(output, []byte("\n"), []byte("\r\n"))
		if told {
			raw = append(raw, (nonce + itoa(code) + ";")...)
		}
		var got bytes.Buffer
		r := wrapped{nonce: nonce}.reader(&got, true)
		for len(raw) > 0 {
			n := min(len(raw), int(size)+1)
			if _, err := r.Write(raw[:n]); err != nil {
				t.Fatal(err)
			}
			raw = raw[n:]
		}
		if err := r.flush(); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Bytes(), output) || (r.code != nil) != told || told && *r.code != code {
			t.Errorf("%q came out as %q, code %v", output, got.Bytes(), r.code)
		}
	})
}
