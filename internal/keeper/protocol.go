package keeper

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// protocolVersion is the socket's; a peer of another one is asked to leave.
const protocolVersion = 3

// maxMessage bounds one message: an environment fits, a flood doesn't.
const maxMessage = 8 << 20

// Origin is the surroundings of a command, from which the keeper opens the same
// providers and resolves the same secrets. It may hold credentials: it travels
// over the socket alone and is never written.
type Origin struct {
	// Dir is the command's folder, ConfigFile the configuration that it named.
	Dir        string `json:"dir"`
	ConfigFile string `json:"config_file,omitzero"`
	// Flags are settings from the command line, by name.
	Flags map[string]string `json:"flags,omitzero"`
	// Env is the environment, NAME=value.
	Env [][]byte `json:"env"`
	// Stamp tells versions of the configuration's files apart.
	Stamp string `json:"stamp,omitzero"`
}

// Format keeps an Origin's environment out of logs, whatever the verb.
func (o Origin) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "origin "+o.Dir) }

// LogValue keeps it out of logs that are written as JSON, too.
func (o Origin) LogValue() slog.Value { return slog.StringValue(o.Dir) }

// Bound is surroundings with the runs that came from them.
type Bound struct {
	Origin Origin   `json:"origin"`
	Runs   []sdk.ID `json:"runs,omitzero"`
}

type op string

const (
	// opHello asks who is there; its form is the same in every version.
	opHello op = "hello"
	// opOffer hands surroundings over, before a run and for renewal.
	opOffer op = "offer"
	// opTake has a run driven.
	opTake   op = "take"
	opStatus op = "status"
	// opPlugin has a plugin hosted for as long as the connection is open.
	opPlugin op = "plugin"
	// opLeave asks the keeper to go; the answer has what it knew.
	opLeave op = "leave"
)

type request struct {
	Op      op      `json:"op"`
	Proto   int     `json:"proto"`
	Version string  `json:"version"`
	Run     sdk.ID  `json:"run,omitzero"`
	Bound   []Bound `json:"bound,omitzero"`
	// Plugin is the name of a plugin, Told what it is initialized with.
	Plugin string          `json:"plugin,omitzero"`
	Told   json.RawMessage `json:"told,omitzero"`
}

// using is what the user of a plugin says while it has it.
type using struct {
	// Doubt: a call has failed as if nobody was there.
	Doubt bool `json:"doubt,omitzero"`
	// Know is a secret value that the plugin is about to be told. It is answered.
	Know []byte `json:"know,omitzero"`
}

type response struct {
	Proto   int    `json:"proto"`
	Version string `json:"version"`
	PID     int    `json:"pid"`
	// Held are the runs that the keeper drives.
	Held  []sdk.ID `json:"held,omitzero"`
	Bound []Bound  `json:"bound,omitzero"`
	// Address is where a plugin listens.
	Address string `json:"address,omitzero"`
	// Known answers using.Know.
	Known bool   `json:"known,omitzero"`
	Error string `json:"error,omitzero"`
	// ID is an error's stable name, Remedy what to do, RetryAfter the wait asked for.
	ID         string        `json:"id,omitzero"`
	Remedy     string        `json:"remedy,omitzero"`
	RetryAfter time.Duration `json:"retry_after,omitzero"`
	Code       sdk.Code      `json:"code,omitzero"`
}

func (r response) err() error {
	if r.Error == "" {
		return nil
	}
	return &sdk.Error{Code: r.Code, Op: "ask the keeper", Err: errors.New(r.Error)}
}

// errMessage is a message that can't be read. It tells nothing of the bytes,
// which may be an environment.
var errMessage = errors.New("not a message of this protocol")

func readMessage(r *bufio.Reader, into any) error {
	line, err := readLine(r)
	if err != nil {
		return err
	}
	if json.Unmarshal(line, into) != nil {
		return errMessage
	}
	return nil
}

func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > maxMessage {
			return nil, fmt.Errorf("%w: longer than %d bytes", errMessage, maxMessage)
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return line, nil
		case errors.Is(err, io.EOF) && len(line) > 0:
			return nil, io.ErrUnexpectedEOF
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

func writeMessage(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}
