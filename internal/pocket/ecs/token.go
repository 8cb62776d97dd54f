package ecs

import (
	"crypto/sha256"
	"encoding/json"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
)

// tokenLife is how long a client token is remembered at most; a minute less and
// it is the task's life plus an hour:
// https://docs.aws.amazon.com/AmazonECS/latest/APIReference/ECS_Idempotency.html#RunTaskIdempotency
const (
	tokenLife      = 24 * time.Hour
	tokenAfterTask = time.Hour
)

// tokenKey is what a token is unique in.
type tokenKey struct{ Cluster, Token string }

// token remembers a RunTask that was carried out.
type token struct {
	Params [sha256.Size]byte
	Made   time.Time
	Tasks  []string // IDs
}

// params sums up all parameters of a RunTask but the token.
func params(in *ecs.RunTaskInput) [sha256.Size]byte {
	bare := *in
	bare.ClientToken = nil
	data, err := json.Marshal(bare)
	if err != nil {
		panic("ecs: parameters of RunTask: " + err.Error()) // they came as JSON
	}
	return sha256.Sum256(data)
}

// replay returns the tasks of an earlier RunTask with the same token, none when
// there is no such token or it has expired. The lock is held.
func (s *Service) replay(c *cluster, in *ecs.RunTaskInput) ([]*task, error) {
	if in.ClientToken == nil {
		return nil, nil
	}
	key := tokenKey{c.Name, *in.ClientToken}
	known := s.tokens[key]
	if known == nil {
		return nil, nil
	}
	now := s.o.Now()
	expired := now.Sub(known.Made) >= tokenLife
	var tasks []*task
	ended := 0
	for _, id := range known.Tasks {
		t := s.tasks[id]
		switch {
		case t == nil:
			ended++ // forgotten, which takes no less than the hour
		case t.view.StoppedAt != nil && now.Sub(*t.view.StoppedAt) >= tokenAfterTask:
			ended++
		default:
			tasks = append(tasks, t)
		}
	}
	if expired || ended == len(known.Tasks) {
		delete(s.tokens, key)
		return nil, nil
	}
	if known.Params != params(in) {
		err := refuse(ruleTokenConflict, "The provided clientToken is already in use with a different RunTask request.")
		arns := []string{}
		for _, id := range known.Tasks {
			arns = append(arns, s.arn("task", c.Name+"/"+id))
		}
		err.Fields = map[string]any{"resourceIds": arns}
		return nil, err
	}
	return tasks, nil
}

// remember keeps a token with the tasks that its call made. The lock is held.
func (s *Service) remember(c *cluster, in *ecs.RunTaskInput, tasks []*task) {
	if in.ClientToken == nil || len(tasks) == 0 {
		return
	}
	known := &token{Params: params(in), Made: s.o.Now()}
	for _, t := range tasks {
		known.Tasks = append(known.Tasks, t.id)
	}
	s.tokens[tokenKey{c.Name, *in.ClientToken}] = known
}
