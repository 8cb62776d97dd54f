//go:build linux || darwin

package local

import (
	"errors"
	"fmt"
	"os/user"
	"strconv"
	"strings"

	"github.com/windlass-run/windlass/internal/driver/local/attempt"
)

// lookUpUser reads NAME, UID, NAME:GROUP or UID:GID. Without a group the user's
// own groups are taken; with one, it is the only one.
func lookUpUser(s string) (*attempt.User, error) {
	name, group, grouped := strings.Cut(s, ":")
	if name == "" || grouped && group == "" {
		return nil, errors.New("write NAME, UID, NAME:GROUP or UID:GID")
	}
	out := &attempt.User{Name: name}
	var known *user.User
	uid, err := number(name)
	if err == nil {
		known, err = user.LookupId(name)
		if err != nil {
			known = nil // a UID needs no name
		}
		out.UID = uid
	} else {
		if known, err = user.Lookup(name); err != nil {
			return nil, fmt.Errorf("this machine has no user %q", name)
		}
		if out.UID, err = number(known.Uid); err != nil {
			return nil, fmt.Errorf("user %q has the odd UID %q", name, known.Uid)
		}
	}
	if known != nil {
		out.Name, out.Home = known.Username, known.HomeDir
	}
	if grouped {
		return out, setGroup(out, group)
	}
	if known == nil {
		return nil, fmt.Errorf("this machine has no user with UID %d, so its group is not known; write UID:GID", uid)
	}
	if out.GID, err = number(known.Gid); err != nil {
		return nil, fmt.Errorf("user %q has the odd GID %q", name, known.Gid)
	}
	ids, err := known.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("the groups of user %q can't be read: %w", name, err)
	}
	for _, id := range ids {
		if gid, err := number(id); err == nil {
			out.Groups = append(out.Groups, gid)
		}
	}
	return out, nil
}

func setGroup(u *attempt.User, group string) error {
	gid, err := number(group)
	if err != nil {
		g, lerr := user.LookupGroup(group)
		if lerr != nil {
			return fmt.Errorf("this machine has no group %q", group)
		}
		if gid, err = number(g.Gid); err != nil {
			return fmt.Errorf("group %q has the odd GID %q", group, g.Gid)
		}
	}
	u.GID, u.Groups = gid, []uint32{gid}
	return nil
}

func number(s string) (uint32, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	return uint32(n), err
}
