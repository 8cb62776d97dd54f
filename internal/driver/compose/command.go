package compose

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// leaveTime is how long a read of Compose's may take to end once it was told to.
const leaveTime = 5 * time.Second

// dropped are variables of the caller that don't reach Compose: they name an
// engine, a project or files besides those that are configured, or let a change
// of one service touch others. All else of the caller's environment does, since
// Compose files refer to it.
var dropped = [...]string{"DOCKER_HOST=", "DOCKER_CONTEXT=", "DOCKER_CONFIG=", "DOCKER_TLS=", "DOCKER_TLS_VERIFY=", "DOCKER_CERT_PATH=",
	"COMPOSE_FILE=", "COMPOSE_PROJECT_NAME=", "COMPOSE_REMOVE_ORPHANS=", "COMPOSE_IGNORE_ORPHANS=", "COMPOSE_PROGRESS=", "COMPOSE_ANSI=", "WINDLASS_"}

// command returns a run of Compose on the project of these files.
func (p *provider) command(ctx context.Context, op string, files []string, args ...string) (*exec.Cmd, error) {
	program, err := p.program(op)
	if err != nil {
		return nil, err
	}
	list := append(p.engineFlags[:len(p.engineFlags):len(p.engineFlags)], "--ansi", "never", "--progress", "json",
		"--project-name", p.cfg.Project, "--project-directory", p.place.directory)
	for _, f := range files {
		list = append(list, "--file", f)
	}
	for _, f := range p.place.envFiles {
		list = append(list, "--env-file", f)
	}
	for _, n := range p.cfg.Profiles {
		list = append(list, "--profile", n)
	}
	cmd := exec.CommandContext(ctx, program, append(list, args...)...)
	cmd.Dir = p.place.directory
	cmd.WaitDelay = leaveTime
	for _, kv := range cmd.Environ() {
		if !hasAnyPrefix(kv, dropped[:]) {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	// An .env file could say otherwise.
	cmd.Env = append(cmd.Env, "DOCKER_CONFIG="+p.dockerConfig, "COMPOSE_REMOVE_ORPHANS=false", "COMPOSE_IGNORE_ORPHANS=true")
	return cmd, nil
}

func hasAnyPrefix(s string, prefixes []string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(s, p) {
			return true
		}
	}
	return false
}

// read runs a command of Compose that changes no service, under the call
// time-out, and returns what it wrote to stdout and what it reported.
func (p *provider) read(ctx context.Context, op string, files []string, args ...string) ([]byte, []report, error) {
	return p.readWithin(ctx, p.client.Timeout(), op, files, args...)
}

func (p *provider) readWithin(ctx context.Context, limit time.Duration, op string, files []string, args ...string) ([]byte, []report, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, p.ended(ctx, op)
	}
	inner := ctx
	if limit > 0 {
		var cancel context.CancelFunc
		inner, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	cmd, err := p.command(inner, op, files, args...)
	if err != nil {
		return nil, nil, err
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	reports := parseReports(&errs)
	switch {
	case ctx.Err() != nil:
		return nil, nil, p.ended(ctx, op)
	case inner.Err() != nil:
		e := p.fail(sdk.DeadlineExceeded, op, "docker compose %s: no answer within %s", args[0], limit)
		e.Retryable = true
		return nil, nil, e
	case err != nil:
		return nil, reports, p.refused(op, args[0], err, reports)
	}
	return out.Bytes(), reports, nil
}

// ended is the error of a call whose context has.
func (p *provider) ended(ctx context.Context, op string) error {
	return &sdk.Error{Code: sdk.CodeOf(ctx.Err()), Op: op, Provider: p.name, Err: context.Cause(ctx)}
}

// refused is the error of a command that changed nothing, in Compose's own words.
func (p *provider) refused(op, verb string, err error, reports []report) error {
	words := failure(reports)
	if words == "" {
		words = err.Error()
	}
	e := p.fail(sdk.FailedPrecondition, op, "docker compose %s: %s", verb, words)
	switch {
	case !errors.As(err, new(*exec.ExitError)):
		e.Err = fmt.Errorf("docker compose %s: %w", verb, err)
	case strings.Contains(words, "annot connect to the Docker daemon"), strings.Contains(words, "failed to connect to the docker API"):
		e.Code, e.Retryable = sdk.Unavailable, true
	}
	return e
}

// report is a line of what Compose writes to stderr with --progress json: the
// state of an object, the end with an error, or a line of its log.
type report struct {
	ID      string `json:"id"`
	Status  string `json:"status"`
	Text    string `json:"text"`
	Error   bool   `json:"error"`
	Message string `json:"message"`
	Level   string `json:"level"`
	Msg     string `json:"msg"`
	// plain is a line that isn't JSON.
	plain string
}

// maxReport bounds a line of Compose's.
const maxReport = 1 << 20

func parseReports(r io.Reader) []report {
	var out []report
	s := bufio.NewScanner(r)
	s.Buffer(nil, maxReport)
	for s.Scan() {
		line := bytes.TrimSpace(s.Bytes())
		if len(line) == 0 {
			continue
		}
		var x report
		if json.Unmarshal(line, &x) != nil || x == (report{}) {
			x = report{plain: string(line)}
		}
		out = append(out, x)
	}
	return out
}

// maxWords bounds what an error quotes of Compose.
const maxWords = 1000

// failure returns Compose's last words on why it failed.
func failure(reports []report) string {
	var last, plain string
	for _, r := range reports {
		switch {
		case r.Error && r.Message != "":
			last = r.Message
		case r.Level == "fatal", r.Level == "error":
			last = r.Msg
		case r.plain != "":
			plain = r.plain
		}
	}
	if last == "" {
		last = plain
	}
	last = strings.ToValidUTF8(strings.Join(strings.Fields(last), " "), "?")
	if len(last) > maxWords {
		last = strings.ToValidUTF8(last[:maxWords], "") + "…"
	}
	return last
}

// objects returns the names of the objects of a sort ("Container", "Network",
// "Volume") that Compose reported with this text.
func objects(reports []report, sort, text string) []string {
	var out []string
	for _, r := range reports {
		if name, ok := strings.CutPrefix(r.ID, sort+" "); ok && r.Text == text {
			out = append(out, strings.Trim(name, `"`))
		}
	}
	return out
}

// run starts Compose for a change and waits for its end. The child has no pipe
// and no terminal of ours, and a process group of its own: once begun it comes
// to its end whatever becomes of this process, and holds the lock until then.
// done is called at its end, also when ctx ended before.
func (p *provider) run(ctx context.Context, op string, files []string, l *lock, output string, args []string, done func(error)) error {
	cmd, err := p.command(context.Background(), op, files, args...)
	if err != nil {
		done(err)
		return err
	}
	out, err := os.OpenFile(output, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		err = p.fail(sdk.FailedPrecondition, op, "keep what Compose says: %w", err)
		done(err)
		return err
	}
	cmd.Stdout, cmd.Stderr = out, out
	detach(cmd)
	l.share(cmd)
	if err := cmd.Start(); err != nil {
		_ = out.Close()
		err = p.fail(sdk.FailedPrecondition, op, "start docker compose: %w", err)
		done(err)
		return err
	}
	end := make(chan error, 1)
	p.running.Go(func() {
		err := cmd.Wait()
		if err != nil {
			err = p.broken(op, args[0], out, err)
		}
		_ = out.Close()
		done(err)
		end <- err
	})
	select {
	case err := <-end:
		return err
	case <-ctx.Done():
		return &sdk.Error{Code: sdk.CodeOf(ctx.Err()), Op: op, Provider: p.name, Remedy: "docker compose goes on; `windlass svc status` shows what it came to",
			Err: context.Cause(ctx)}
	}
}

// broken is the error of a change that Compose gave up: what was done until then
// isn't known.
func (p *provider) broken(op, verb string, out io.ReadSeeker, err error) error {
	words := err.Error()
	if _, serr := out.Seek(0, io.SeekStart); serr == nil {
		if w := failure(parseReports(out)); w != "" {
			words = w
		}
	}
	return p.fail(sdk.Unknown, op, "docker compose %s: %s", verb, words)
}
