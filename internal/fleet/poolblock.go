package fleet

import (
	"encoding/base64"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Kinds of block pools, whose volumes are not files.
const (
	PoolISCSIDirect PoolKind = "iscsi-direct"
	PoolISCSI       PoolKind = "iscsi"
	PoolRBD         PoolKind = "rbd"
	PoolLogical     PoolKind = "logical"
)

// Formats of volumes that are not files, as hosts report them.
const (
	FormatLUN = "lun" // a LUN of an iSCSI target
	FormatRBD = "rbd" // an image in a Ceph pool
	FormatLV  = "lv"  // an LVM logical volume
)

// PoolSecretField describes the credentials of a pool's storage. A secret is stored once and never shown again.
type PoolSecretField struct {
	Label, Hint string
	Check       func(secret string) (refusal string)
}

const (
	maxSecretBytes = 255
	maxServers     = 9
)

var (
	iqnForm      = regexp.MustCompile(`^(iqn\.[0-9]{4}-[0-9]{2}\.[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[A-Za-z0-9._:-]+)?|eui\.[0-9A-Fa-f]{16}|naa\.[0-9A-Fa-f]{16}([0-9A-Fa-f]{16})?)$`)
	poolUserForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@:-]{0,126}$`)
	cephForm     = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,126}$`)
	groupForm    = regexp.MustCompile(`^[A-Za-z0-9_+][A-Za-z0-9_.+-]{0,126}$`)
)

var (
	poolPortal = PoolField{
		Name: "portal", Label: "Portal", Hint: "The target's address, such as 10.0.0.5 or san-1.example.org:3260.",
		At:    func(s *PoolSpec) *string { return &s.Portal },
		Check: refuseUnless(isServerAddress, "Enter the target's name or address, with the port if it is not 3260."),
	}
	poolTarget = PoolField{
		Name: "target", Label: "Target", Hint: "The target's name (IQN), such as iqn.2026-01.org.example:vms.",
		At:    func(s *PoolSpec) *string { return &s.Target },
		Check: refuseUnless(isIQN, "Enter the target's iSCSI name, such as iqn.2026-01.org.example:vms."),
	}
	poolInitiator = PoolField{
		Name: "initiator", Label: "Initiator", Hint: "Initiator name (IQN) of the hosts, such as iqn.2026-01.org.example:quantix. The target must allow it.",
		At:    func(s *PoolSpec) *string { return &s.Initiator },
		Check: refuseUnless(isIQN, "Enter the initiator name of the hosts, such as iqn.2026-01.org.example:quantix."),
	}
	poolMonitors = PoolField{
		Name: "monitors", Label: "Monitors", Hint: "Addresses of the cluster's monitors, separated by commas: 10.0.0.1, 10.0.0.2:6789.",
		At: func(s *PoolSpec) *string { return &s.Monitors },
		Check: refuseUnless(func(v string) bool {
			all := PoolSpec{Monitors: v}.CephMonitors()
			return len(all) > 0 && len(all) <= maxServers && !slices.ContainsFunc(all, func(m string) bool { return !isServerAddress(m) })
		}, "Enter the addresses of one to nine monitors, separated by commas."),
	}
	poolCeph = PoolField{
		Name: "cephPool", Label: "Ceph pool", Hint: "The pool's name in the cluster, such as vms.",
		At:    func(s *PoolSpec) *string { return &s.CephPool },
		Check: refuseUnless(cephForm.MatchString, "Enter the name of the Ceph pool: letters, digits and . _ -."),
	}
	poolGroup = PoolField{
		Name: "group", Label: "Volume group", Hint: "The volume group's name on the hosts, such as vg-vms. It must exist: nothing is created or formatted. Each host accepts only devices that its agent allows (poolDevices, such as /dev/vg-vms).",
		At:    func(s *PoolSpec) *string { return &s.Group },
		Check: refuseUnless(func(v string) bool { return groupForm.MatchString(v) && v != "." && v != ".." }, "Enter the volume group's name: letters, digits and . _ + -."),
	}
	poolUser = PoolField{
		Name: "user", Label: "User", Hint: "User name for the storage. Empty: no authentication.", Optional: true,
		At:    func(s *PoolSpec) *string { return &s.User },
		Check: refuseUnless(func(v string) bool { return v == "" || poolUserForm.MatchString(v) }, "A user name has letters, digits and . _ @ : -."),
	}
)

var chap = &PoolSecretField{
	Label: "CHAP password", Hint: "Most targets require 12 to 16 characters.",
	Check: func(v string) string {
		if len(v) > maxSecretBytes || !IsPlainText(v) {
			return "A password is one line of at most 255 characters."
		}
		return ""
	},
}

var cephKey = &PoolSecretField{
	Label: "Ceph key", Hint: "As \"ceph auth get-key client.USER\" prints it.",
	Check: func(v string) string {
		if key, err := base64.StdEncoding.DecodeString(v); err != nil || len(key) < 20 || len(key) > maxSecretBytes {
			return "This is not a Ceph key: a key has about 40 characters and ends in \"==\"."
		}
		return ""
	},
}

func isIQN(v string) bool { return len(v) <= 223 && iqnForm.MatchString(v) }

// isServerAddress reports whether v is a host name or address, with or without a port.
func isServerAddress(v string) bool {
	host, port := SplitServerAddress(v)
	if n, err := strconv.Atoi(port); port != "" && (err != nil || n < 1 || n > 65535) {
		return false
	}
	return hostAddrForm.MatchString(host) && (!strings.Contains(host, ":") || net.ParseIP(host) != nil)
}

// SplitServerAddress splits a server into host and port; the port is empty if there is none.
func SplitServerAddress(v string) (host, port string) {
	if host, port, err := net.SplitHostPort(v); err == nil {
		return host, port
	}
	return strings.TrimSuffix(strings.TrimPrefix(v, "["), "]"), ""
}

// CephMonitors returns the Ceph monitors of the pool.
func (s PoolSpec) CephMonitors() (out []string) {
	for m := range strings.SplitSeq(s.Monitors, ",") {
		if m = strings.TrimSpace(m); m != "" {
			out = append(out, m)
		}
	}
	return out
}

// Location returns where the pool's data is, and the field that names the place: a directory, an iSCSI target, a Ceph
// pool or a volume group. Two pools on one host must not have the same location.
func (s PoolSpec) Location() (field, place string) {
	switch {
	case s.Kind.Info().FilePool:
		return "path", s.Path
	case s.Target != "":
		return "target", s.Target
	case s.CephPool != "":
		return "cephPool", s.CephPool
	}
	return "group", s.Group
}

// CheckSecret adds an error at field if the secret is invalid for the pool. A pool without a user name has no secret.
func (s PoolSpec) CheckSecret(c *Checks, field, secret string) {
	is := s.Kind.Info().Secret
	switch {
	case is == nil && secret == "":
	case is == nil:
		c.Add(field, "A pool of kind %q has no secret.", string(s.Kind))
	case s.User == "" && secret != "":
		c.Add("spec.user", "Enter the user name for the secret.")
	case s.User != "" && secret == "":
		c.Add(field, "Enter the secret of %s.", s.User)
	case secret != "":
		if why := is.Check(secret); why != "" {
			c.Add(field, "%s", why)
		}
	}
}

// lunForm matches libvirt's names for the LUNs of an iSCSI target.
var lunForm = regexp.MustCompile(`^unit:[0-9]+:[0-9]+:([0-9]{1,5})$`)

// LUNNumber returns the LUN number in the name of an iSCSI volume; ok is false for other names.
func LUNNumber(volume string) (number string, ok bool) {
	m := lunForm.FindStringSubmatch(volume)
	if m == nil {
		return "", false
	}
	return m[1], true
}
