package azure

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	arm "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/containerinstance/armcontainerinstance/v2"
	"github.com/creack/pty"
	"github.com/gorilla/websocket"

	"github.com/windlass-run/windlass/internal/pocket/fault"
	"github.com/windlass-run/windlass/internal/testwait"
)

// service is a group that stays up.
func service(command ...string) arm.ContainerGroup {
	return with(job(command...), func(g *arm.ContainerGroup) {
		g.Properties.RestartPolicy = to.Ptr(arm.ContainerGroupRestartPolicyAlways)
		g.Properties.Containers[0].Properties.EnvironmentVariables = []*arm.EnvironmentVariable{{Name: to.Ptr("WHO"), Value: to.Ptr("you")}}
	})
}

// dial opens the connection of a session.
func (c *cloud) dial(t *testing.T, group, command string) (*websocket.Conn, string) {
	t.Helper()
	res, err := c.containers.ExecuteCommand(t.Context(), c.o.ResourceGroup, group, "main", arm.ContainerExecRequest{Command: &command,
		TerminalSize: &arm.ContainerExecRequestTerminalSize{Cols: to.Ptr[int32](91), Rows: to.Ptr[int32](17)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(c.CA())
	d := websocket.Dialer{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	conn, resp, err := d.DialContext(t.Context(), *res.WebSocketURI, nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	t.Cleanup(func() { _ = conn.Close() })
	return conn, *res.Password
}

// session runs a program, types keys, and returns what came and how it ended.
func (c *cloud) session(t *testing.T, group, command, keys string) (string, error) {
	t.Helper()
	conn, password := c.dial(t, group, command)
	if err := conn.WriteMessage(websocket.TextMessage, []byte(password)); err != nil {
		t.Fatal(err)
	}
	if keys != "" {
		if err := conn.WriteMessage(websocket.BinaryMessage, []byte(keys)); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	for {
		_, data, err := conn.ReadMessage()
		if err != nil {
			return out.String(), err
		}
		out.Write(data)
	}
}

// TestExec runs a program at a terminal, with the container's variables, and
// tells no exit code.
func TestExec(t *testing.T) {
	c := newCloud(t, Options{})
	c.create(t, "up", service("sleep", "1000"))
	c.until(t, "up", "Running")
	out, err := c.session(t, "up", "sh", "stty size; echo \"$WHO\"; tty >/dev/null && echo at a terminal; exit 3\n")
	if !websocket.IsCloseError(err, websocket.CloseNormalClosure) || !strings.Contains(out, "17 91\r\n") || !strings.Contains(out, "you\r\n") || !strings.Contains(out, "at a terminal\r\n") {
		t.Errorf("%q, %v", out, err)
	}
	// The whole text is the program's name.
	if out, err := c.session(t, "up", "echo hello", ""); !websocket.IsCloseError(err, websocket.CloseNormalClosure) || !strings.Contains(out, `exec: "echo hello": executable file not found`) {
		t.Errorf("a command with arguments: %q, %v", out, err)
	}
	conn, _ := c.dial(t, "up", "sh")
	if err := conn.WriteMessage(websocket.TextMessage, []byte("guess")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := conn.ReadMessage(); !websocket.IsCloseError(err, websocket.ClosePolicyViolation) {
		t.Errorf("with a wrong password: %v", err)
	}
	for effect, want := range map[string]fault.Effect{"dropped": {Drop: true}, "reset": {Reset: true}} {
		c.Faults().Add(fault.Rule{Action: ActionExecSession, Count: 1, Effect: want})
		var closed *websocket.CloseError
		if out, err := c.session(t, "up", "ls", ""); out != "" || err == nil || errors.As(err, &closed) && closed.Code != websocket.CloseAbnormalClosure {
			t.Errorf("%s: %q, %v", effect, out, err)
		}
		c.Faults().Clear()
	}
	// The container's end is the session's.
	conn, password := c.dial(t, "up", "cat")
	if err := conn.WriteMessage(websocket.TextMessage, []byte(password)); err != nil {
		t.Fatal(err)
	}
	if a := c.call(t, http.MethodPost, c.groupPath("up")+"/stop", nil); a.status != http.StatusNoContent {
		t.Fatal(a)
	}
	if _, _, err := conn.ReadMessage(); !websocket.IsCloseError(err, websocket.CloseNormalClosure) {
		t.Errorf("when its container ends: %v", err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.url+execPath+"nothing", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if _ = resp.Body.Close(); resp.StatusCode != http.StatusNotFound {
		t.Errorf("no session: %s", resp.Status)
	}
}

// lockedBuilder may be read while it is written.
type lockedBuilder struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedBuilder) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuilder) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestAzService lets a client that nobody here wrote operate a group that stays up.
func TestAzService(t *testing.T) {
	t.Parallel() // it mostly waits
	c := newCloud(t, Options{})
	c.TuneKnobs(func(k *Knobs) { k.MeterEvery = 100 * time.Millisecond })
	a := newAz(t, c)
	c.create(t, "web", service("sh", "-c", "echo up; trap 'exit 0' TERM; while :; do sleep 0.1; done"))
	c.until(t, "web", "Running")
	where := []string{"--resource-group", ResourceGroup, "--name", "web"}
	az := func(verb string, args ...string) string {
		return a.run(t, append(append([]string{"container", verb}, where...), args...)...)
	}
	az("restart")
	c.untilThat(t, "web", "restarted", func(g arm.ContainerGroup) bool {
		v := mainOf(g)
		return v != nil && *v.RestartCount == 1 && *v.CurrentState.State == "Running"
	})
	az("stop")
	c.until(t, "web", "Stopped")
	az("start")
	c.until(t, "web", "Running")

	// az wants a terminal of its own.
	cmd := a.command(t, append(append([]string{"container", "exec"}, where...), "--exec-command", "sh")...)
	term, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 80})
	if err != nil {
		t.Fatal(err)
	}
	defer term.Close()
	var out lockedBuilder
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(&out, term) // it ends with an error of its own once az has ended
	}()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("az printed %q", out.String())
		}
	})
	testwait.Until(t, long, "session of az", func() bool { return c.Calls().Count(ActionExecSession) == 1 })
	if _, err := term.WriteString("echo \"he\"\"llo $WHO\"; exit\n"); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if <-read; !strings.Contains(out.String(), "hello you\r\n") {
		t.Errorf("exec printed %q", out.String())
	}

	id := c.groupPath("web")
	testwait.Until(t, long, "measure", func() bool { return c.measured(t, "web", "CpuUsage") })
	list := a.json(t, "monitor", "metrics", "list", "--resource", id, "--metrics", "CpuUsage,MemoryUsage", "--aggregation", "Average", "--filter", "containerName eq '*'").(doc)
	values := list["value"].([]any)
	if len(values) != 2 || values[0].(doc)["name"].(doc)["value"] != "CpuUsage" || values[1].(doc)["unit"] != "Bytes" {
		t.Fatalf("metrics gave %v", list)
	}
	series := values[1].(doc)["timeseries"].([]any)[0].(doc)
	if series["metadatavalues"].([]any)[0].(doc)["value"] != "main" {
		t.Errorf("series of %v", series["metadatavalues"])
	}
	memory := 0.0
	for _, p := range series["data"].([]any) {
		if v, ok := p.(doc)["average"].(float64); ok {
			memory = v
		}
	}
	if memory < float64(os.Getpagesize()) {
		t.Errorf("memory of %v bytes", memory)
	}
}
