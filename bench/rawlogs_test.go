package bench

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	arm "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/containerinstance/armcontainerinstance/v2"
	"github.com/digitalocean/godo"

	"github.com/windlass-run/windlass/internal/cloud/azure"
	pocketazure "github.com/windlass-run/windlass/internal/pocket/azure"
	"github.com/windlass-run/windlass/internal/pocket/run"
	"github.com/windlass-run/windlass/sdk"
)

// rawArchive reads the archive of the only job by the vendor's client, and counts
// its lines.
func rawArchive(b *testing.B, url string) (lines int) {
	b.Helper()
	client, err := godo.New(http.DefaultClient, godo.SetBaseURL(url+"/"), godo.SetRequestHeaders(map[string]string{"Authorization": "Bearer pocket"}))
	if err != nil {
		b.Fatal(err)
	}
	apps, _, err := client.Apps.List(b.Context(), nil)
	if err != nil || len(apps) != 1 {
		b.Fatalf("apps: %d, %v", len(apps), err)
	}
	list, _, err := client.Apps.ListDeployments(b.Context(), apps[0].ID, nil)
	if err != nil || len(list) == 0 {
		b.Fatalf("deployments: %v", err)
	}
	logs, _, err := client.Apps.GetLogs(b.Context(), apps[0].ID, list[0].ID, apps[0].Spec.Jobs[0].Name, godo.AppLogTypeRun, false, 0)
	if err != nil {
		b.Fatal(err)
	}
	for _, address := range logs.HistoricURLs {
		req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, address, nil)
		if err != nil {
			b.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			b.Fatal(err)
		}
		for in := bufio.NewScanner(res.Body); in.Scan(); {
			lines++
		}
		_ = res.Body.Close()
	}
	return lines
}

// rawTail reads what Azure shows of the only group's log by the vendor's client, and
// counts its lines.
func rawTail(b *testing.B, address, ca string) int {
	b.Helper()
	session, err := azure.Open(azure.Settings{Provider: "plain", Subscription: pocketazure.SubscriptionID, Endpoint: "https://" + address, CAFile: ca, Credentials: azureKeys()})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = session.Close() }()
	token, options := session.Client()
	groups, err := arm.NewContainerGroupsClient(session.Subscription, token, options)
	if err != nil {
		b.Fatal(err)
	}
	page, err := groups.NewListByResourceGroupPager(pocketazure.ResourceGroup, nil).NextPage(b.Context())
	if err != nil || len(page.Value) != 1 {
		b.Fatalf("groups: %d, %v", len(page.Value), err)
	}
	client, err := arm.NewContainersClient(session.Subscription, token, options)
	if err != nil {
		b.Fatal(err)
	}
	out, err := client.ListLogs(b.Context(), pocketazure.ResourceGroup, *page.Value[0].Name, *page.Value[0].Properties.Containers[0].Name, &arm.ContainersClientListLogsOptions{Timestamps: new(true)})
	if err != nil {
		b.Fatal(err)
	}
	return strings.Count(*out.Content, "\n")
}

// follow runs a job and follows its log until the job has ended and a look finds
// nothing new. It returns lines and gaps, and when the last line had come.
func follow(b *testing.B, p sdk.Provider) (lines, gaps int, last time.Duration) {
	b.Helper()
	begun := time.Now()
	runner, h := started(b, p)
	logger, ok := sdk.Of(p, sdk.Logger())
	if !ok {
		b.Fatal("it has no logs")
	}
	ctx, cancel := context.WithCancel(b.Context())
	var over atomic.Bool
	var looks sync.WaitGroup
	looks.Go(func() { // as the engine does
		for sdk.SystemClock().Sleep(ctx, time.Second) == nil {
			st, err := runner.JobStatus(ctx, sdk.JobStatusRequest{Handle: h})
			if err != nil && ctx.Err() == nil {
				b.Error(err)
			}
			if st.State.Terminal() {
				over.Store(true)
				return
			}
		}
	})
	defer looks.Wait()
	defer cancel()
	ended := false
	for it, err := range logger.JobLogs(b.Context(), sdk.JobLogsRequest{Handle: h, Follow: true}) {
		if err != nil {
			b.Fatal(err)
		}
		if it.Entry != nil {
			lines, last = lines+1, time.Since(begun)
		}
		if it.Gap != nil {
			gaps++
		}
		if it.Entry == nil && it.Gap == nil && ended {
			break
		}
		ended = over.Load()
	}
	return lines, gaps, last
}

// pacer plays a job that writes so many lines each time.
type pacer struct {
	lines, each int
	every       time.Duration
	all         sync.WaitGroup
}

// Start implements run.Executor.
func (p *pacer) Start(_ context.Context, spec run.Spec) (run.Container, error) {
	c := &paced{done: make(chan struct{}), stopped: make(chan struct{})}
	p.all.Go(func() {
		defer close(c.done)
		tick := time.NewTicker(p.every)
		defer tick.Stop()
		for n := 0; n < p.lines; {
			select {
			case <-tick.C:
				n = p.write(spec.Stdout, n)
			case <-c.stopped:
				return
			}
		}
	})
	return c, nil
}

func (p *pacer) write(out io.Writer, n int) int {
	var text bytes.Buffer
	for end := min(n+p.each, p.lines); n < end; n++ {
		fmt.Fprintf(&text, "line %d of a job that has much to say\n", n)
	}
	_, _ = out.Write(text.Bytes()) // the pocket cloud's own writer
	return n
}

// Close implements run.Executor.
func (p *pacer) Close() error {
	p.all.Wait()
	return nil
}

type paced struct {
	done, stopped chan struct{}
	once          sync.Once
}

// Done implements run.Container.
func (c *paced) Done() <-chan struct{} { return c.done }

// Exit implements run.Container.
func (c *paced) Exit() run.Exit { return run.Exit{} }

// Stop implements run.Container.
func (c *paced) Stop(time.Duration) { c.once.Do(func() { close(c.stopped) }) }
