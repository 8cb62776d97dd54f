package aws

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/windlass-run/windlass/internal/pocket/autoscaling"
	"github.com/windlass-run/windlass/internal/pocket/awsjson"
	"github.com/windlass-run/windlass/internal/pocket/batch"
	"github.com/windlass-run/windlass/internal/pocket/cloudwatch"
	"github.com/windlass-run/windlass/internal/pocket/ecs"
	"github.com/windlass-run/windlass/internal/pocket/eks"
	"github.com/windlass-run/windlass/internal/pocket/fault"
	"github.com/windlass-run/windlass/internal/pocket/logs"
	"github.com/windlass-run/windlass/internal/pocket/run"
	"github.com/windlass-run/windlass/internal/pocket/secretsmanager"
	"github.com/windlass-run/windlass/internal/pocket/ssm"
	"github.com/windlass-run/windlass/internal/pocket/sts"
)

// The account and region that Options have by default.
const (
	Account = "123456789012"
	Region  = "eu-central-1"
)

// maxBody bounds a request's body in bytes.
const maxBody = 8 << 20

// Options configure a pocket AWS. The zero value is a working one.
type Options struct {
	// Account has twelve digits; Region is the only one that there is.
	Account, Region string
	// Now is the cloud's clock; nil means time.Now. States go on by real time,
	// or by virtual time under testing/synctest.
	Now func() time.Time
	// NewID returns 32 hexadecimal digits, new each time; nil means random
	// ones. It is used by several goroutines.
	NewID func() string
	// Executor runs containers; nil means processes of this machine. Close
	// closes it.
	Executor run.Executor
	// Clusters are there from the start, beside "default".
	Clusters []string
	// JobQueues are there from the start, beside batch.DefaultQueue.
	JobQueues []batch.Queue
	// LogGroups are there from the start.
	LogGroups []string
	// Secrets are the secrets of access keys: a call that was signed for somebody else
	// to make is verified where its key is among them.
	Secrets map[string]string
	// Instances says that clusters have container instances, for launch type
	// EC2.
	Instances bool
	// Record keeps all requests and replies: for tests.
	Record bool
	// Seed chooses what a fault's share hits.
	Seed uint64
	// AnyClock takes requests whose date is more than five minutes off, which
	// AWS refuses.
	AnyClock bool
	// State is a folder in which all is kept between two servers, empty for
	// none. Close writes it; tasks don't outlive their server.
	State string
}

// Server is a pocket AWS. It is an http.Handler for all its services.
type Server struct {
	o        Options
	faults   *fault.Plan
	calls    *fault.Recorder
	limits   limits
	services []*awsjson.Service
	executor run.Executor

	ecs     *ecs.Service
	eks     *eks.Service
	batch   *batch.Service
	logs    *logs.Service
	secrets *secretsmanager.Service
	ssm     *ssm.Service
	sts     *sts.Service
	scaling *autoscaling.Service
	metrics *cloudwatch.Service
}

// New returns a server. It must be closed.
func New(o Options) (*Server, error) {
	o.Account, o.Region = cmp.Or(o.Account, Account), cmp.Or(o.Region, Region)
	if len(o.Account) != 12 || strings.Trim(o.Account, "0123456789") != "" {
		return nil, fmt.Errorf("pocket aws: account %q: want twelve digits", o.Account)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.NewID == nil {
		o.NewID = randomID
	}
	s := &Server{o: o, faults: fault.NewPlan(o.Seed), calls: fault.NewRecorder(o.Record), executor: o.Executor, sts: &sts.Service{Account: o.Account}}
	if s.executor == nil {
		s.executor = run.NewProcesses(nil)
	}
	var errs [7]error
	s.logs, errs[0] = logs.New(logs.Options{Account: o.Account, Region: o.Region, Now: o.Now})
	s.secrets, errs[1] = secretsmanager.New(secretsmanager.Options{Account: o.Account, Region: o.Region, Now: o.Now, NewID: o.NewID})
	s.ssm, errs[2] = ssm.New(ssm.Options{Account: o.Account, Region: o.Region, Now: o.Now})
	s.ecs, errs[3] = ecs.New(ecs.Options{Account: o.Account, Region: o.Region, Now: o.Now, NewID: o.NewID, Executor: s.executor,
		Logs: s.logs, Secret: s.secret, Clusters: o.Clusters, Instances: o.Instances})
	s.batch, errs[4] = batch.New(batch.Options{Account: o.Account, Region: o.Region, Now: o.Now, NewID: o.NewID, Executor: s.executor,
		Logs: s.logs, Secret: s.secret, Queues: o.JobQueues})
	s.scaling, errs[5] = autoscaling.New(autoscaling.Options{Account: o.Account, Region: o.Region, Now: o.Now})
	s.eks, errs[6] = eks.New(eks.Options{Account: o.Account, Region: o.Region, Now: o.Now})
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("pocket aws: %w", err)
	}
	s.metrics = &cloudwatch.Service{Points: s.ecs.Points}
	s.services = []*awsjson.Service{s.ecs.API(), s.batch.API(), s.logs.API(), s.secrets.API(), s.ssm.API(), s.scaling.API(), s.eks.API()}
	if err := s.load(); err != nil {
		return nil, fmt.Errorf("pocket aws: %w", err)
	}
	for _, name := range o.LogGroups {
		s.logs.CreateGroup(name)
	}
	return s, nil
}

// Close ends every task and job, waits for it, and saves the state. Calls that come
// later are answered from what is left; nothing runs any more.
func (s *Server) Close() error {
	s.ecs.Close()
	s.batch.Close()
	return errors.Join(s.executor.Close(), s.save())
}

// Faults returns the plan of what goes wrong with calls. Actions are named
// "ecs:RunTask", services "ecs:*".
func (s *Server) Faults() *fault.Plan { return s.faults }

// Calls returns the record of calls.
func (s *Server) Calls() *fault.Recorder { return s.calls }

// ECS returns the container service, for its knobs.
func (s *Server) ECS() *ecs.Service { return s.ecs }

// EKS returns the Kubernetes service, to put clusters into.
func (s *Server) EKS() *eks.Service { return s.eks }

// Batch returns the service of batch jobs, for its knobs.
func (s *Server) Batch() *batch.Service { return s.batch }

// Logs returns the log service, for its knobs and groups.
func (s *Server) Logs() *logs.Service { return s.logs }

// Secrets returns Secrets Manager, to put secrets into.
func (s *Server) Secrets() *secretsmanager.Service { return s.secrets }

// Parameters returns Parameter Store, to put parameters into.
func (s *Server) Parameters() *ssm.Service { return s.ssm }

// route finds out what a request is for.
func (s *Server) route(r *http.Request, body []byte) (service *awsjson.Service, form url.Values, action string, err *awsjson.Error) {
	if target := r.Header.Get("X-Amz-Target"); target != "" {
		prefix, action, _ := strings.Cut(target, ".")
		for _, svc := range s.services {
			if svc.Prefix == prefix && action != "" {
				if t := r.Header.Get("Content-Type"); t != "application/x-amz-json-1.1" {
					return nil, nil, "", awsjson.Errorf("UnknownOperationException", "Content-Type %q is not application/x-amz-json-1.1.", t)
				}
				return svc, nil, action, nil
			}
		}
		return nil, nil, "", awsjson.Errorf("UnknownOperationException", "The pocket cloud has no service %q.", prefix)
	}
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded") {
		form, err := url.ParseQuery(string(body))
		if err == nil && form.Get("Action") != "" {
			return nil, form, form.Get("Action"), nil
		}
	}
	return nil, nil, "", awsjson.Errorf("UnknownOperationException", "The request names no operation.")
}

// ServeHTTP answers one call.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := uuid(randomID())
	w.Header().Set("X-Amzn-Requestid", id)
	// Clients learn from it how far off their own clock is.
	w.Header().Set("Date", s.o.Now().UTC().Format(http.TimeFormat))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		s.write(w, (&awsjson.Error{Code: "RequestEntityTooLargeException", Message: err.Error(), Status: http.StatusRequestEntityTooLarge}).Reply())
		return
	}
	if session, ok := ecs.Channel(r.URL.Path); ok {
		s.ecs.ServeChannel(w, r, session)
		return
	}
	if action, ok := cloudwatch.Route(r.URL.Path); ok {
		s.serveMetrics(w, r, awsjson.Call{Action: action, ID: id, At: s.o.Now()}, body, false)
		return
	}
	if action, ok := strings.CutPrefix(r.Header.Get("X-Amz-Target"), cloudwatch.Prefix+"."); ok {
		s.serveMetrics(w, r, awsjson.Call{Action: action, ID: id, At: s.o.Now()}, body, true)
		return
	}
	if batch.Serves(r.URL.Path) {
		action, input, refused := batch.Route(r, body)
		s.serveREST(w, r, s.batch.API(), awsjson.Call{Action: action, ID: id, At: s.o.Now()}, input, refused)
		return
	}
	if eks.Serves(r.URL.Path) {
		action, input, refused := eks.Route(r)
		s.serveREST(w, r, s.eks.API(), awsjson.Call{Action: action, ID: id, At: s.o.Now()}, input, refused)
		return
	}
	if r.Method == http.MethodGet && r.URL.Path == "/" && awsjson.Presigned(r) {
		s.servePresigned(w, r, id)
		return
	}
	if r.Method != http.MethodPost || r.URL.Path != "/" {
		s.write(w, (&awsjson.Error{Code: "UnknownOperationException", Message: "The pocket cloud answers POST / only.", Status: http.StatusNotFound}).Reply())
		return
	}
	service, form, action, refused := s.route(r, body)
	if refused != nil {
		s.write(w, refused.Reply())
		return
	}
	call := awsjson.Call{Action: action, ID: id, At: s.o.Now(), Host: r.Host}
	name, fail := "sts:"+action, func(e *awsjson.Error) fault.Reply { return s.sts.Fail(call, e) }
	if service != nil {
		name, fail = service.Name+":"+action, (*awsjson.Error).Reply
	}
	fault.Server{Plan: s.faults, Recorder: s.calls, Now: s.o.Now}.Serve(w, r, name, body, func() fault.Reply {
		scope, refused := s.authenticate(r, name)
		if refused == nil {
			refused = s.limits.take(name, s.o.Now())
		}
		if refused != nil {
			return fail(refused)
		}
		call.Region, call.AccessKey = scope.Region, scope.AccessKey
		if service == nil {
			return s.sts.Do(call, form)
		}
		return service.Do(r.Context(), call, body)
	}, func(f fault.Refusal) fault.Reply {
		return fail(&awsjson.Error{Code: f.Code, Message: f.Message, Status: f.Status})
	})
}

// serveREST answers one call of a service whose operations are paths.
func (s *Server) serveREST(w http.ResponseWriter, r *http.Request, api *awsjson.Service, call awsjson.Call, input []byte, unknown *awsjson.Error) {
	fail := (*awsjson.Error).Reply
	if api == s.batch.API() {
		fail = batch.Fail
	}
	if unknown != nil {
		s.write(w, awsjson.Rest(fail(unknown)))
		return
	}
	name := api.Name + ":" + call.Action
	fault.Server{Plan: s.faults, Recorder: s.calls, Now: s.o.Now}.Serve(w, r, name, input, func() fault.Reply {
		scope, refused := s.authenticate(r, name)
		if refused == nil {
			refused = s.limits.take(name, s.o.Now())
		}
		if refused != nil {
			return awsjson.Rest(fail(refused))
		}
		call.Region, call.AccessKey = scope.Region, scope.AccessKey
		return awsjson.Rest(api.Do(r.Context(), call, input))
	}, func(f fault.Refusal) fault.Reply {
		return awsjson.Rest(fail(&awsjson.Error{Code: f.Code, Message: f.Message, Status: f.Status}))
	})
}

// servePresigned answers a call of STS that its maker has signed for whoever makes it:
// https://docs.aws.amazon.com/STS/latest/APIReference/API_GetCallerIdentity.html
func (s *Server) servePresigned(w http.ResponseWriter, r *http.Request, id string) {
	form := r.URL.Query()
	for name := range form {
		if strings.HasPrefix(name, "X-Amz-") {
			form.Del(name)
		}
	}
	call := awsjson.Call{Action: form.Get("Action"), ID: id, At: s.o.Now()}
	if strings.HasPrefix(r.Header.Get("Accept"), "application/json") {
		call.JSON = true
	}
	fault.Server{Plan: s.faults, Recorder: s.calls, Now: s.o.Now}.Serve(w, r, "sts:"+call.Action, nil, func() fault.Reply {
		scope, err := awsjson.ReadPresigned(r, s.o.Now(), func(key string) (string, bool) { v, ok := s.o.Secrets[key]; return v, ok })
		var refused *awsjson.Error
		if errors.As(err, &refused) {
			return s.sts.Fail(call, refused)
		}
		if scope.Service != "sts" || scope.Region != s.o.Region {
			return s.sts.Fail(call, &awsjson.Error{Code: "SignatureDoesNotMatch", Message: "Credential should be scoped to a valid region and service.", Status: http.StatusForbidden})
		}
		call.Region, call.AccessKey = scope.Region, scope.AccessKey
		return s.sts.Do(call, form)
	}, func(f fault.Refusal) fault.Reply {
		return s.sts.Fail(call, &awsjson.Error{Code: f.Code, Message: f.Message, Status: f.Status})
	})
}

// serveMetrics answers one call of CloudWatch, which speaks other protocols.
func (s *Server) serveMetrics(w http.ResponseWriter, r *http.Request, call awsjson.Call, body []byte, inJSON bool) {
	name, do, fail, input := "cloudwatch:"+call.Action, s.metrics.Do, cloudwatch.Fail, cloudwatch.Input(body)
	if inJSON {
		do, fail, input = s.metrics.DoJSON, cloudwatch.FailJSON, body
	}
	fault.Server{Plan: s.faults, Recorder: s.calls, Now: s.o.Now}.Serve(w, r, name, input, func() fault.Reply {
		scope, refused := s.authenticate(r, "monitoring:"+call.Action)
		if refused == nil {
			refused = s.limits.take(name, s.o.Now())
		}
		if refused != nil {
			return fail(refused)
		}
		call.Region, call.AccessKey = scope.Region, scope.AccessKey
		return do(r.Context(), call, body)
	}, func(f fault.Refusal) fault.Reply {
		return fail(&awsjson.Error{Code: f.Code, Message: f.Message, Status: f.Status})
	})
}

// authenticate checks the signature's form, time and scope.
func (s *Server) authenticate(r *http.Request, action string) (awsjson.Scope, *awsjson.Error) {
	now := s.o.Now()
	if s.o.AnyClock {
		now = time.Time{}
	}
	scope, err := awsjson.ReadSignature(r, now)
	var refused *awsjson.Error
	if errors.As(err, &refused) {
		return scope, refused
	}
	service, _, _ := strings.Cut(action, ":")
	if scope.Service != service {
		return scope, awsjson.Errorf("InvalidSignatureException", "Credential should be scoped to correct service: '%s'.", service)
	}
	if scope.Region != s.o.Region {
		return scope, awsjson.Errorf("InvalidSignatureException", "Credential should be scoped to a valid region, not '%s'.", scope.Region)
	}
	return scope, nil
}

func (s *Server) write(w http.ResponseWriter, reply fault.Reply) {
	for name, values := range reply.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(reply.Status)
	_, _ = w.Write(reply.Body) // a caller that has gone misses nothing that counts
}

// Deny makes the refusal of an action that the caller's policy doesn't allow,
// in IAM's words, for a rule of Faults. Resource may be *.
func (s *Server) Deny(accessKey, action, resource string) *fault.Refusal {
	return &fault.Refusal{Code: "AccessDeniedException", Message: fmt.Sprintf(
		"User: arn:aws:iam::%s:user/%s is not authorized to perform: %s on resource: %s because no identity-based policy allows the %s action",
		s.o.Account, accessKey, action, resource, action)}
}

// Throttle is the refusal of a call beyond the API's rate.
func Throttle() *fault.Refusal {
	return &fault.Refusal{Code: "ThrottlingException", Message: "Rate exceeded"}
}

func randomID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}

func uuid(id string) string {
	return id[:8] + "-" + id[8:12] + "-" + id[12:16] + "-" + id[16:20] + "-" + id[20:]
}
