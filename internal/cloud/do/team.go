package do

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"

	"github.com/digitalocean/godo"

	"github.com/windlass-run/windlass/sdk"
)

// team returns the team of the session's token, from the note of an earlier
// session or from the account. A token belongs to one team for as long as it
// exists, so a note never goes stale.
// https://docs.digitalocean.com/reference/api/create-personal-access-token/
func (x *Session) team(ctx context.Context, s Settings, token string) (string, error) {
	note := ""
	// An endpoint of this machine may be another cloud tomorrow.
	if s.StateDir != "" && s.Endpoint == "" {
		sum := sha256.Sum256([]byte("windlass team of " + token))
		note = filepath.Join(s.StateDir, "team-"+hex.EncodeToString(sum[:8])+".json")
		if team, ok := readTeam(note); ok {
			return team, nil
		}
	}
	team, err := x.WhoAmI(ctx, opOpen)
	if err != nil {
		return "", err
	}
	if note != "" {
		writeTeam(note, team)
	}
	return team, nil
}

// WhoAmI asks whose the token is: the team's UUID, or the account's where it
// names no team. It needs the scope account:read.
// https://docs.digitalocean.com/reference/api/digitalocean/#operation/account_get
func (x *Session) WhoAmI(ctx context.Context, op string) (string, error) {
	var a *godo.Account
	err := x.Call(ctx, op, func(ctx context.Context) (err error) {
		a, _, err = x.Client.Account.Get(ctx)
		return err
	})
	var e *sdk.Error
	if errors.As(err, &e) && e.Code == sdk.PermissionDenied {
		named := *e
		named.Remedy = "give the token the scope account:read, by which a provider knows whose the apps are"
		return "", &named
	}
	if err != nil {
		return "", err
	}
	id := a.UUID
	if a.Team != nil {
		id = cmp.Or(a.Team.UUID, id)
	}
	if id == "" {
		return "", &sdk.Error{Code: sdk.Unavailable, Op: op, Provider: x.provider, Err: errors.New("DigitalOcean names neither team nor account"), Retryable: true}
	}
	return id, nil
}

type teamNote struct {
	V    int    `json:"v"`
	Team string `json:"team"`
}

func readTeam(file string) (string, bool) {
	data, err := os.ReadFile(file)
	if err != nil {
		return "", false
	}
	var n teamNote
	if json.Unmarshal(data, &n) != nil || n.V != 1 || n.Team == "" {
		return "", false
	}
	return n.Team, true
}

// writeTeam keeps a note where it can: without one the next session asks again.
func writeTeam(file, team string) {
	data, err := json.Marshal(teamNote{V: 1, Team: team})
	if err != nil {
		return
	}
	tmp, err := os.CreateTemp(filepath.Dir(file), ".team-*")
	if err != nil {
		return
	}
	_, err = tmp.Write(data)
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), file)
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
	}
}
