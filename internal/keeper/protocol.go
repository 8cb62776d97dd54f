package keeper

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"

	"github.com/windlass-run/windlass/sdk"
)

// protocolVersion is the socket's; a peer of another one is asked to leave.
const protocolVersion = 1

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
}

// String keeps an Origin's environment out of logs.
func (o Origin) String() string { return "origin " + o.Dir }

type op string

const (
	opHello  op = "hello"
	opTake   op = "take"
	opRenew  op = "renew"
	opLeave  op = "leave"
	opStatus op = "status"
)

type request struct {
	Op      op     `json:"op"`
	Proto   int    `json:"proto"`
	Version string `json:"version"`
	Run     sdk.ID `json:"run,omitzero"`
	Origin  Origin `json:"origin,omitzero"`
}

type response struct {
	Proto   int    `json:"proto"`
	Version string `json:"version"`
	PID     int    `json:"pid"`
	// Held are the runs that the keeper drives.
	Held  []sdk.ID `json:"held,omitzero"`
	Error string   `json:"error,omitzero"`
	Code  sdk.Code `json:"code,omitzero"`
}

func (r response) err() error {
	if r.Error == "" {
		return nil
	}
	return &sdk.Error{Code: r.Code, Op: "ask the keeper", Err: errors.New(r.Error)}
}

func readMessage(r *bufio.Reader, into any) error {
	line, err := readLine(r)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(line, into); err != nil {
		return sdk.Errorf(sdk.InvalidArgument, "read message", "%w", err)
	}
	return nil
}

func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			return line, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		case len(line) > maxMessage:
			return nil, sdk.Errorf(sdk.ResourceExhausted, "read message", "longer than %d bytes", maxMessage)
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
