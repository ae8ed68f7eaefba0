package config

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/spf13/pflag"
)

// setting is one row in a command's table of settings. The flag and the variable are derived from the YAML key:
// database.maxConns has the flag --database-max-conns and the variable QUANTIX_DATABASE_MAX_CONNS.
type setting struct {
	key   string
	value any // the default value; its type (string, int, bool, []string or keyValues) is the setting's type
	help  string
}

// keyValues is a list of "key=value" that the file may also contain as a group.
type keyValues []string

// PoolRoots are the default directories for pools.
var PoolRoots = []string{"/var/lib/libvirt/images", "/srv", "/mnt", "/data", "/storage"}

const envPrefix = "QUANTIX_"

var portalSettings = []setting{
	{"listen", "127.0.0.1:8443", "`host:port` for browsers and the API"},
	{"agentListen", "127.0.0.1:8444", "`host:port` for agents, which speak mutual TLS"},
	{"dataDir", "/var/lib/quantix", "`directory` of the portal's keys and its private PostgreSQL"},
	{"secretsKey", "", "`file` with the key that encrypts secrets in the database: the hosts' authority, credentials of pools and first-boot data; default: secrets.key in the data directory, created at the first start. Portals that share a database need the same key"},
	{"publicUrl", "", "`URL` that browsers and the join command use; default: derived from listen"},
	{"agentUrl", "", "`URL` that agents dial, with several portals the load balancer's; default: derived from agentListen"},
	{"pairUrl", "", "`URL` of this portal for hosts, for consoles; default: agentUrl. Behind a load balancer each portal needs its own"},
	{"trustedProxies", []string(nil), "`networks` (CIDR) whose X-Forwarded-For header is trusted"},
	{"connsPerAddress", 256, "maximum of concurrent `connections` from one address to the listener for browsers; 0: no limit. Trusted proxies and this machine have no limit"},
	{"macPrefix", "52:54:00", "first three to five `bytes` of the MAC addresses that new NICs get"},
	{"agentReleases", "", "`directory` with signed releases of the agent, which the portal offers to hosts; default: none"},
	{"relayRate", 64, "maximum of `MiB` a second that this portal relays between hosts that cannot reach each other, in all; 0: no limit"},
	{"auditMonths", 24, "whole `months` that audit records are kept, at least 12"},
	{"bmcTo", []string(nil), "`networks` (CIDR) of link-local, loopback or reserved addresses at which BMCs of hosts may be; default: only private networks and the public Internet"},
	{"notifyTo", []string(nil), "`networks` (CIDR) of private, reserved or this machine's own addresses that channels of the fleet may send notifications to; default: only the public Internet"},
	{"mail.server", "", "`host:port` of the mail server for e-mail channels; default: none"},
	{"mail.tls", "starttls", "`encryption` of the mail server: starttls, tls, or none"},
	{"mail.from", "", "e-mail `address` of the sender of notifications"},
	{"mail.user", "", "`name` with which the portal signs in to the mail server; default: no sign-in"},
	{"mail.passwordFile", "", "`file` with that user's password"},
	{"metrics.sampleHours", 2, "`hours` that the metrics of every report are kept, 2 to 48"},
	{"metrics.minuteDays", 2, "`days` that metrics with a point a minute are kept, 2 to 31"},
	{"metrics.tenMinuteDays", 35, "`days` that metrics with a point every 10 minutes are kept, 35 to 400"},
	{"metrics.twoHourDays", 730, "`days` that metrics with a point every 2 hours are kept, 62 to 3660, and at least metrics.tenMinuteDays"},
	{
		"database.url", "", "`URL` of the PostgreSQL to use; default: a private PostgreSQL in the data directory. " +
			"Other users can read a password in a flag: put it into the file or the variable instead",
	},
	{"database.maxConns", 20, "maximum of `connections` to PostgreSQL that one portal opens"},
	{"tls.cert", "", "PEM `file` of the certificate for browsers; without it the portal serves plain HTTP"},
	{"tls.key", "", "PEM `file` of that certificate's key"},
	logLevel, logFormat,
}

var agentSettings = []setting{
	{"portal", "", "`URL` that the agent dials; the join stores it"},
	{"name", "", "this host's `name` in the portal; default: the machine's host name"},
	{"dataDir", "/var/lib/quantix-agent", "`directory` of the agent's key, certificate and journal"},
	{"hypervisor", "libvirt", "`backend` that runs the VMs: libvirt, or mock, which simulates them"},
	{"libvirt.socket", "/run/libvirt/libvirt-sock", "`path` of libvirtd's Unix socket"},
	{
		"poolRoots", PoolRoots,
		"`directories` that may contain storage pools, after symbolic links are resolved; the agent refuses all others",
	},
	{
		"poolDevices", []string(nil),
		"`devices` whose file systems may be mounted as storage pools, * for any part of a name: /dev/disk/by-id/wwn-*; default: none",
	},
	{
		"fetchFrom", []string(nil),
		"`networks` (CIDR) of private, reserved or this host's own addresses that volumes may be downloaded from; default: only the public Internet",
	},
	{"fetchMost", 64, "maximum size of one download in `GiB`"},
	{"transferPorts", "", "`ports` for disks and images from other hosts, each open during one transfer, such as 49200-49231; empty: any; \"none\": only through the portal's relay"},
	{"networkConfirm", 30, "`seconds` to reach the portal after a change of the agent's own network; after that the change is undone"},
	{"reportInterval", 0, "`seconds` between two reports to the portal while nothing changes, 5 to 60; wins over the portal's setting. The host counts as offline after three intervals. Default: the portal's setting, 10"},
	{"labels", keyValues(nil), "`labels` of this host, key=value; in the file also a group. They win over labels of the portal and count in the same way"},
	{"hostPower", false, "let the portal reboot this host and power it off, while the host is in maintenance"},
	{"diagnosticsDir", "", "`directory` of root's executables that administrators may run as diagnostics of this host, by name and without arguments; default: none"},
	{"upgradeKeys", []string(nil), "public `keys` (ed25519:…, from \"quantix release keygen\") of signed releases that may replace this agent by order of the portal; default: none, so the portal cannot upgrade it"},
	{"kernelLog", "/dev/kmsg", "`file` that health checks read as the kernel's log; a plain file serves tests: each line appended to it counts"},
	{"metricsListen", "", "`host:port` for Prometheus' /metrics; default: none. Other addresses than 127.0.0.1 have metrics of the host and its VMs only with metricsToken and metricsCert"},
	{"metricsToken", "", "`file` with the token that Prometheus sends for /metrics, at least 16 characters; default: no token"},
	{"metricsCert", "", "PEM `file` of the certificate for /metrics; without it the agent serves plain HTTP"},
	{"metricsKey", "", "PEM `file` of that certificate's key"},
	logLevel, logFormat,
}

var (
	logLevel  = setting{"log.level", "info", "lowest logged `level`: debug, info, warn or error"}
	logFormat = setting{"log.format", "text", "`format` of the log: text or json"}
)

// keyWords splits the key at its dots and capital letters: database.maxConns becomes database, max, conns.
func (s setting) keyWords() []string {
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

func (s setting) flagName() string { return strings.Join(s.keyWords(), "-") }

func (s setting) envName() string {
	return envPrefix + strings.ToUpper(strings.Join(s.keyWords(), "_"))
}

// parse parses the text of an environment variable. Commas separate the items of a list.
func (s setting) parse(text string) (any, error) {
	switch s.value.(type) {
	case int:
		number, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil {
			return nil, fmt.Errorf("%q is not a whole number", text)
		}
		return number, nil
	case bool:
		yes, err := strconv.ParseBool(strings.TrimSpace(text))
		if err != nil {
			return nil, fmt.Errorf("%q is not true or false", text)
		}
		return yes, nil
	case []string, keyValues:
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
		help := fmt.Sprintf("%s [%s, YAML %s]", s.help, s.envName(), s.key)
		switch value := s.value.(type) {
		case int:
			fs.Int(s.flagName(), value, help)
		case bool:
			fs.Bool(s.flagName(), value, help)
		case []string:
			fs.StringSlice(s.flagName(), value, help)
		case keyValues:
			fs.StringSlice(s.flagName(), value, help)
		case string:
			fs.String(s.flagName(), value, help)
		}
	}
}

// findSetting returns the setting that has this name in the given spelling.
func findSetting(settings []setting, name string, spelling func(setting) string) (setting, bool) {
	for _, s := range settings {
		if spelling(s) == name {
			return s, true
		}
	}
	return setting{}, false
}
