package keeper

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/windlass-run/windlass/internal/pluginhost"
	"github.com/windlass-run/windlass/sdk"
)

// maxHolds is how many uses of plugins by commands are kept at once.
const maxHolds = 1024

// Plugin has the keeper host a plugin of this command's surroundings, and connects to
// its process, which was initialized with told where that isn't nil. The keeper stays, and
// with it the process, until the lease is released. A keeper is started when there is
// none.
func (c *Client) Plugin(ctx context.Context, name string, told json.RawMessage) (*pluginhost.Lease, error) {
	for again := true; ; again = false {
		if err := c.Offer(ctx); err != nil {
			return nil, err
		}
		l, err := c.hold(ctx, request{Op: opPlugin, Plugin: name, Told: told, Bound: []Bound{{c.Origin, nil}}})
		// One that was leaving has left, and a process that answered nothing was ended.
		if err == nil || !again || !nobody(err) && !errors.Is(err, errOther) && !hung(err) {
			return l, err
		}
	}
}

// hung reports whether a process was there and had ended before it said who it is. One
// that has ended too often is left alone until its time.
func hung(err error) bool {
	var e *sdk.Error
	return errors.As(err, &e) && e.ID == pluginhost.ErrEnded && e.Unreached && e.RetryAfter == 0
}

// hold makes a request whose connection is kept: it is the use of what was asked for.
func (c *Client) hold(ctx context.Context, req request) (*pluginhost.Lease, error) {
	conn, r, res, err := c.converse(ctx, req)
	if err == nil && res.Error != "" {
		// Nothing was sent to the plugin yet.
		err = &sdk.Error{Code: res.Code, Op: "host plugin " + req.Plugin, ID: res.ID, Remedy: res.Remedy, RetryAfter: res.RetryAfter, Unreached: true,
			Retryable: res.Code == sdk.Unavailable, Err: errors.New(res.Error)}
	}
	if err != nil {
		if conn != nil {
			_ = conn.Close()
		}
		return nil, err
	}
	// The keeper's last word is why the process has ended.
	ended, why := make(chan struct{}), errors.New("the keeper that hosted it has left")
	known := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			var said response
			if readMessage(r, &said) != nil {
				return
			}
			if !said.Known {
				if said.Error != "" {
					why = errors.New(said.Error)
				}
				return
			}
			known <- struct{}{} // whoever asked waits
		}
	}()
	var saying, asking sync.Mutex
	say := func(u using) error {
		saying.Lock()
		defer saying.Unlock()
		return writeMessage(conn, u)
	}
	l := &pluginhost.Lease{Address: res.Address, Done: ended}
	l.Why = func() error {
		<-ended
		return why
	}
	l.Doubt = func() { _ = say(using{Doubt: true}) } // a keeper that has left has ended it
	l.Know = func(v sdk.SecretValue) {
		if len(v.Reveal()) == 0 {
			return // it would be no message
		}
		asking.Lock()
		defer asking.Unlock()
		if say(using{Know: v.Reveal()}) != nil {
			return // nobody logs any more what the plugin says
		}
		select {
		case <-known:
		case <-ended:
		}
	}
	l.Release = sync.OnceFunc(func() {
		_ = conn.Close()
		<-ended
	})
	if err := pluginhost.Attach(ctx, req.Plugin, l); err != nil {
		l.Release()
		return nil, err
	}
	return l, nil
}

// converse connects and makes one request; whoever gets the connection closes it.
func (c *Client) converse(ctx context.Context, req request) (net.Conn, *bufio.Reader, response, error) {
	conn, err := dial(ctx, c.StateDir)
	if err != nil {
		return nil, nil, response{}, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	r := bufio.NewReader(conn)
	var res response
	for _, q := range []request{{Op: opHello}, req} {
		q.Proto, q.Version = protocolVersion, c.Version
		if err = conn.SetDeadline(time.Now().Add(askTime)); err == nil {
			err = writeMessage(conn, q)
		}
		if err == nil {
			res = response{}
			err = readMessage(r, &res)
		}
		if err == nil && (res.Proto != protocolVersion || res.Version != c.Version) {
			err = fmt.Errorf("%w: version %s, process %d", errOther, res.Version, res.PID)
		}
		if err != nil {
			break
		}
	}
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	return conn, r, res, err
}

// host answers a request for a plugin, and reports whether the connection is kept.
func (s *server) host(ctx context.Context, c net.Conn, r *bufio.Reader, req request) (kept bool) {
	var l *pluginhost.Lease
	err := safely(s.o.Log, "host plugin", s.o.Redact, func() (err error) {
		ctx, cancel := context.WithTimeout(ctx, messageTime)
		defer cancel()
		l, err = s.plugin(ctx, req)
		return err
	})
	res := s.answerTo(err)
	if e := new(sdk.Error); errors.As(err, &e) {
		res.ID, res.Remedy, res.RetryAfter = e.ID, s.o.Redact(e.Remedy), e.RetryAfter
		if res.Remedy != "" {
			// It goes beside the words, whose end it was.
			res.Error = strings.Replace(res.Error, "; "+res.Remedy, "", 1)
		}
	}
	if err == nil {
		res.Address = l.Address
	}
	switch {
	case c.SetDeadline(time.Now().Add(messageTime)) != nil || writeMessage(c, res) != nil:
		if err == nil {
			l.Release()
		}
		return false
	case err != nil:
		return false
	}
	s.keep(ctx, c, r, l)
	return true
}

// plugin starts a plugin of the surroundings that a request brings.
func (s *server) plugin(ctx context.Context, req request) (*pluginhost.Lease, error) {
	if len(req.Bound) != 1 {
		return nil, sdk.Errorf(sdk.InvalidArgument, "host plugin", "the request has no surroundings")
	}
	if err := s.offered(ctx, req.Bound); err != nil {
		return nil, err
	}
	s.mu.Lock()
	full := s.holds >= maxHolds
	s.mu.Unlock()
	if full {
		return nil, sdk.Errorf(sdk.ResourceExhausted, "host plugin", "%d uses of plugins are kept", maxHolds)
	}
	return s.pool.plugin(ctx, req.Bound[0].Origin, req.Plugin, req.Told)
}

// keep keeps the use of a plugin for a client, until one of them ends.
func (s *server) keep(ctx context.Context, c net.Conn, r *bufio.Reader, l *pluginhost.Lease) {
	s.mu.Lock()
	s.holds++
	s.mu.Unlock()
	s.count(1)
	s.wg.Go(func() {
		defer func() {
			_ = c.Close()
			l.Release()
			s.count(-1)
			s.mu.Lock()
			s.holds--
			s.mu.Unlock()
		}()
		stop := context.AfterFunc(ctx, func() { _ = c.Close() })
		defer stop()
		if c.SetDeadline(time.Time{}) != nil {
			return
		}
		var answering sync.Mutex
		answer := func(res response) error {
			answering.Lock()
			defer answering.Unlock()
			return writeMessage(c, res)
		}
		gone := make(chan struct{})
		s.wg.Go(func() {
			defer close(gone)
			for {
				var u using
				if readMessage(r, &u) != nil {
					return
				}
				if u.Doubt {
					l.Doubt()
				}
				if u.Know != nil {
					l.Know(sdk.NewSecretValue(u.Know))
					if answer(response{Known: true}) != nil {
						return
					}
				}
			}
		})
		select {
		case <-gone:
		case <-l.Done:
			if c.SetDeadline(time.Now().Add(time.Second)) == nil {
				_ = answer(s.answerTo(l.Why()))
			}
			_ = c.Close()
			<-gone
		}
	})
}

// plugin hosts a plugin of surroundings that were offered.
func (p *pool) plugin(ctx context.Context, o Origin, name string, told json.RawMessage) (l *pluginhost.Lease, err error) {
	key, err := keyOf(o)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	i := slices.IndexFunc(p.list, func(s *surroundings) bool { return s.key == key && !s.home })
	if i < 0 {
		p.mu.Unlock()
		return nil, sdk.Errorf(sdk.Unavailable, "host plugin", "the keeper is leaving")
	}
	s := p.list[i]
	release := p.holdLocked(s)
	p.mu.Unlock()
	defer release()
	select {
	case <-s.ready:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if s.err != nil {
		return nil, s.err
	}
	err = safely(p.log, "host plugin", s.redact, func() (err error) {
		l, err = s.opened.Plugin(ctx, name, told)
		return err
	})
	return l, err
}
