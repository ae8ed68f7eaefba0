package config

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/spf13/pflag"
)

// setting is one row of a command's table. Only its YAML key is written down: database.maxConns yields the flag
// --database-max-conns and the variable QUANTIX_DATABASE_MAX_CONNS.
type setting struct {
	key   string
	value any // the default; its type (string, int, []string) is the setting's type
	help  string
}

// PoolRoots are the default directories for pools.
var PoolRoots = []string{"/var/lib/libvirt/images", "/srv", "/mnt", "/data", "/storage"}

const envPrefix = "QUANTIX_"

var portalSettings = []setting{
	{"listen", "127.0.0.1:8443", "`host:port` for browsers and the API"},
	{"agentListen", "127.0.0.1:8444", "`host:port` for agents, which speak mutual TLS"},
	{"dataDir", "/var/lib/quantix", "`directory` of the portal's keys and its private PostgreSQL"},
	{"secretsKey", "", "`file` with the key that seals the key of the hosts' authority, the credentials of pools and first boots; without it, secrets.key in the data directory, which the first start makes. Portals that share a database need the same"},
	{"publicUrl", "", "`URL` that browsers and the join command use; without it, the address that follows from listen"},
	{"agentUrl", "", "`URL` that agents dial, a balancer's before several portals; without it, the address that follows from agentListen"},
	{"pairUrl", "", "`URL` at which hosts reach this very portal, for consoles; without it, agentUrl. Behind a balancer each portal has its own"},
	{"trustedProxies", []string(nil), "`networks` (CIDR) whose X-Forwarded-For is believed"},
	{"connsPerAddress", 256, "most `connections` at once from one address to the listener for browsers; 0: no bound. Trusted proxies and this machine have none"},
	{"macPrefix", "52:54:00", "first three to five `bytes` of the MAC addresses that new NICs get"},
	{"relayRate", 64, "how many `MiB` a second hosts that do not reach each other may send by way of this portal, all together; 0: as fast as it goes"},
	{"auditMonths", 24, "how many whole `months` the audit is kept, at least 12"},
	{
		"database.url", "", "`URL` of the PostgreSQL to use; without it the portal runs a private one in its data directory. " +
			"Other users can read a password in a flag: better put it into the file or the variable",
	},
	{"database.maxConns", 20, "most `connections` to PostgreSQL that one portal opens"},
	{"tls.cert", "", "PEM `file` of the certificate for browsers; without it the portal speaks plain HTTP"},
	{"tls.key", "", "PEM `file` of that certificate's key"},
	logLevel, logFormat,
}

var agentSettings = []setting{
	{"portal", "", "`URL` that the agent dials; joining remembers it"},
	{"name", "", "this host's `name` in the portal; without it, the machine's host name"},
	{"dataDir", "/var/lib/quantix-agent", "`directory` of the agent's key, certificate and journal"},
	{"hypervisor", "libvirt", "`backend` that runs the VMs: libvirt, or mock, which only pretends"},
	{"libvirt.socket", "/run/libvirt/libvirt-sock", "`path` of libvirtd's Unix socket"},
	{
		"poolRoots", PoolRoots,
		"`directories` in which storage pools may be, wherever symbolic links lead; the agent refuses all others",
	},
	{
		"poolDevices", []string(nil),
		"`devices` that file systems of storage pools may be on, * for any part of a name: /dev/disk/by-id/wwn-*; without it the agent mounts none",
	},
	{
		"fetchFrom", []string(nil),
		"`networks` (CIDR) of private, reserved or this host's own addresses from which volumes may be downloaded; without it, from the Internet alone",
	},
	{"fetchMost", 64, "most `GiB` of one download"},
	{"transferPorts", "", "`ports` on which other hosts' disks and images are taken in, each open for one transfer, such as 49200-49231; empty: any, \"none\": by way of the portal alone"},
	{"networkConfirm", 30, "`seconds` in which the portal must be reached after a change of the network that the agent is on; else it is undone"},
	{"metricsListen", "", "`host:port` for Prometheus' /metrics; without it there is none"},
	logLevel, logFormat,
}

var (
	logLevel  = setting{"log.level", "info", "least `level` that is logged: debug, info, warn or error"}
	logFormat = setting{"log.format", "text", "`form` of the log's lines: text or json"}
)

// words splits a key at its dots and capitals: database.maxConns becomes database, max, conns.
func (s setting) words() []string {
	var b strings.Builder
	for _, r := range s.key {
		switch {
		case r == '.':
			b.WriteByte(' ')
		case unicode.IsUpper(r):
			b.WriteByte(' ')
			b.WriteRune(unicode.ToLower(r))
		default:
			b.WriteRune(r)
		}
	}
	return strings.Fields(b.String())
}

func (s setting) flag() string { return strings.Join(s.words(), "-") }

func (s setting) env() string { return envPrefix + strings.ToUpper(strings.Join(s.words(), "_")) }

// parse parses a variable's text; commas separate list items.
func (s setting) parse(text string) (any, error) {
	switch s.value.(type) {
	case int:
		number, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil {
			return nil, fmt.Errorf("%q is not a whole number", text)
		}
		return number, nil
	case []string:
		list := []string{}
		for item := range strings.SplitSeq(text, ",") {
			if item = strings.TrimSpace(item); item != "" {
				list = append(list, item)
			}
		}
		return list, nil
	}
	return text, nil
}

func registerFlags(fs *pflag.FlagSet, settings []setting, file string) {
	fs.String("config", "", "read settings from this YAML `file`, which must exist; without it, from "+file+" if that exists")
	for _, s := range settings {
		help := fmt.Sprintf("%s [%s, YAML %s]", s.help, s.env(), s.key)
		switch value := s.value.(type) {
		case int:
			fs.Int(s.flag(), value, help)
		case []string:
			fs.StringSlice(s.flag(), value, help)
		case string:
			fs.String(s.flag(), value, help)
		}
	}
}

// find returns the setting with this name in the given spelling.
func find(settings []setting, name string, spelling func(setting) string) (setting, bool) {
	for _, s := range settings {
		if spelling(s) == name {
			return s, true
		}
	}
	return setting{}, false
}
