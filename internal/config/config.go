// Package config reads the settings of the portal and the agent. A flag overrides a QUANTIX_* variable, a variable
// overrides the YAML file, and the file overrides the default. Each command has one table of its settings. The table's
// keys determine the flag, the variable and the YAML key of each setting.
package config

import (
	"cmp"
	"net"
	"os"
	"strings"

	"github.com/spf13/pflag"
)

// Default configuration files, read if --config is not given. A default file may be missing.
const (
	PortalFile = "/etc/quantix/portal.yaml"
	AgentFile  = "/etc/quantix/agent.yaml"
)

// Portal holds the settings of a portal.
type Portal struct {
	// Listen is the host:port for browsers and the API.
	Listen string `koanf:"listen"`
	// AgentListen is the host:port of the mutual-TLS listener for agents.
	AgentListen string `koanf:"agentListen"`
	// DataDir is the directory of the portal's keys and its private PostgreSQL.
	DataDir string `koanf:"dataDir"`
	// SecretsKey is the file with the key that encrypts the host authority's key, pool credentials and first-boot
	// files. By default the file is in DataDir. All portals of one database need the same key.
	SecretsKey string `koanf:"secretsKey"`
	// PublicURL is the address for browsers and for the join command. By default it is derived from Listen. If the port
	// in Listen is 0, PublicURL stays empty, because the port is chosen when the listener opens.
	PublicURL string `koanf:"publicUrl"`
	// AgentURL is the address that agents connect to, by default derived from AgentListen. With several portals it is
	// the address of the load balancer.
	AgentURL string `koanf:"agentUrl"`
	// PairURL is the address at which hosts reach this portal itself, because both sides of a relay, such as a
	// console, must connect to the same portal. The default is AgentURL.
	PairURL string `koanf:"pairUrl"`
	// TrustedProxies are the networks (CIDR) whose X-Forwarded-For header is trusted.
	TrustedProxies []string `koanf:"trustedProxies"`
	// ConnsPerAddress limits concurrent connections of one client address; 0 means no limit. Trusted proxies and
	// localhost are exempt.
	ConnsPerAddress int `koanf:"connsPerAddress"`
	// MACPrefix is the prefix of the MAC addresses of new NICs.
	MACPrefix string `koanf:"macPrefix"`
	// AgentReleases is the directory with signed releases of the agent; empty: none.
	AgentReleases string `koanf:"agentReleases"`
	// RelayRate limits the total traffic between hosts relayed by this portal, in MiB a second; 0 means no limit.
	RelayRate int `koanf:"relayRate"`
	// AuditMonths is how many complete months of the audit log the portal keeps.
	AuditMonths int `koanf:"auditMonths"`
	// BMCTo are networks (CIDR) of hosts' BMCs, beside private and public ones.
	BMCTo []string `koanf:"bmcTo"`
	// NotifyTo are private, reserved or local networks (CIDR) that the fleet's channels may send to.
	NotifyTo []string `koanf:"notifyTo"`
	Mail     Mail     `koanf:"mail"`
	Metrics  Metrics  `koanf:"metrics"`
	Database Database `koanf:"database"`
	TLS      TLS      `koanf:"tls"`
	Log      Log      `koanf:"log"`
}

// Mail configures the mail server for e-mail channels. It is off unless Server is set.
type Mail struct {
	Server string `koanf:"server"` // host:port
	TLS    string `koanf:"tls"`    // starttls, tls or none
	From   string `koanf:"from"`   // address of the sender
	User   string `koanf:"user"`   // empty: no authentication
	// PasswordFile contains the user's password in its first line.
	PasswordFile string `koanf:"passwordFile"`
}

// Metrics is how long the portal keeps the points of metrics.
type Metrics struct {
	SampleHours   int `koanf:"sampleHours"`   // every report
	MinuteDays    int `koanf:"minuteDays"`    // a point a minute
	TenMinuteDays int `koanf:"tenMinuteDays"` // a point every 10 minutes
	TwoHourDays   int `koanf:"twoHourDays"`   // a point every 2 hours
}

// Database configures the portal's PostgreSQL.
type Database struct {
	// URL may contain a password and is never printed. If empty, the portal runs a private PostgreSQL below the data
	// directory.
	URL string `koanf:"url"`
	// MaxConns is the largest number of connections of one portal.
	MaxConns int `koanf:"maxConns"`
}

// TLS names the PEM files of the listener for browsers: both files, or neither. Without them the listener serves plain
// HTTP.
type TLS struct {
	Cert string `koanf:"cert"`
	Key  string `koanf:"key"`
}

// Log configures the level (debug, info, warn, error) and format (text, json) of the log.
type Log struct {
	Level  string `koanf:"level"`
	Format string `koanf:"format"`
}

// Agent holds the settings of an agent.
type Agent struct {
	// Portal is the URL that the agent dials; empty until the host has joined, because joining stores it.
	Portal string `koanf:"portal"`
	// Name is the host's name in the portal; the machine's hostname by default.
	Name string `koanf:"name"`
	// DataDir is the directory of the agent's key, certificate and journal.
	DataDir string `koanf:"dataDir"`
	// Hypervisor is "libvirt" or "mock".
	Hypervisor string  `koanf:"hypervisor"`
	Libvirt    Libvirt `koanf:"libvirt"`
	// PoolRoots are the directories that may contain directory pools.
	PoolRoots []string `koanf:"poolRoots"`
	// PoolDevices are patterns (path.Match) of block devices for pools.
	PoolDevices []string `koanf:"poolDevices"`
	// FetchFrom are private, reserved or local networks (CIDR) that downloads may come from.
	FetchFrom []string `koanf:"fetchFrom"`
	// FetchMost is the maximum size of one download in GiB.
	FetchMost int `koanf:"fetchMost"`
	// TransferPorts are the ports for disks and images from other hosts: "first-last", one port, empty for any, or
	// "none".
	TransferPorts string `koanf:"transferPorts"`
	// NetworkConfirm is the time in seconds that the agent has to reach the portal after a change of the host's
	// network. If the agent cannot reach the portal in this time, it reverts the change.
	NetworkConfirm int `koanf:"networkConfirm"`
	// ReportInterval is the interval of the host's reports in seconds; 0: that of the portal.
	ReportInterval int `koanf:"reportInterval"`
	// LabelList are the host's labels, each "key=value".
	LabelList []string `koanf:"labels"`
	// Labels are those of LabelList by key.
	Labels map[string]string `koanf:"-"`
	// HostPower lets the portal reboot the host and power it off, while the host is in maintenance.
	HostPower bool `koanf:"hostPower"`
	// DiagnosticsDir is the directory of the site's own diagnostics; empty: none.
	DiagnosticsDir string `koanf:"diagnosticsDir"`
	// UpgradeKeys are the public keys of signed releases that may replace this agent; none: the portal cannot upgrade it.
	UpgradeKeys []string `koanf:"upgradeKeys"`
	// KernelLog is the kernel's log, or a file with lines as if they came from it.
	KernelLog string `koanf:"kernelLog"`
	// MetricsListen is the host:port of /metrics; empty disables it.
	MetricsListen string `koanf:"metricsListen"`
	// MetricsToken is the file of the token that /metrics requires; empty: none.
	MetricsToken string `koanf:"metricsToken"`
	// MetricsCert and MetricsKey are the PEM files of the listener of /metrics: both files, or neither. Without them it
	// serves plain HTTP.
	MetricsCert string `koanf:"metricsCert"`
	MetricsKey  string `koanf:"metricsKey"`
	Log         Log    `koanf:"log"`
}

// ExposesHost reports whether /metrics has the values of the host and its VMs: on an address of this machine only, or for
// clients with the token, over TLS.
func (a Agent) ExposesHost() bool {
	return a.MetricsListen != "" && (isLoopback(a.MetricsListen) || a.MetricsToken != "" && a.MetricsCert != "")
}

// isLoopback reports whether other machines cannot reach the address.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// Libvirt configures the connection to libvirt.
type Libvirt struct {
	// Socket is the path of libvirtd's Unix socket.
	Socket string `koanf:"socket"`
}

// PortalFlags registers the flags of the portal's settings, and --config.
func PortalFlags(fs *pflag.FlagSet) { registerFlags(fs, portalSettings, PortalFile) }

// AgentFlags registers the flags of the agent's settings, and --config.
func AgentFlags(fs *pflag.FlagSet) { registerFlags(fs, agentSettings, AgentFile) }

// LoadPortal reads and checks the portal's settings. flags are from PortalFlags (nil: none), and env has the form of
// os.Environ. file is the configuration file; if empty, LoadPortal reads the file that --config names, else PortalFile
// if it exists. The error names every invalid setting in the spelling that the user chose.
func LoadPortal(flags *pflag.FlagSet, env []string, file string) (Portal, error) {
	var p Portal
	from, err := loadSettings(&p, settingsSource{portalSettings, agentSettings, PortalFile}, flags, env, file)
	if err != nil {
		return Portal{}, err
	}
	if err := checkPortal(&p, from); err != nil {
		return Portal{}, err
	}
	for _, u := range []*string{&p.PublicURL, &p.AgentURL, &p.PairURL} {
		*u = strings.TrimSuffix(*u, "/")
	}
	if p.PublicURL == "" {
		scheme := "http"
		if p.TLS.Cert != "" {
			scheme = "https"
		}
		p.PublicURL = dialURL(scheme, p.Listen)
	}
	if p.AgentURL == "" {
		p.AgentURL = dialURL("https", p.AgentListen)
	}
	p.PairURL = cmp.Or(p.PairURL, p.AgentURL)
	return p, nil
}

// LoadAgent reads and checks the agent's settings, in the same way as LoadPortal.
func LoadAgent(flags *pflag.FlagSet, env []string, file string) (Agent, error) {
	var a Agent
	from, err := loadSettings(&a, settingsSource{agentSettings, portalSettings, AgentFile}, flags, env, file)
	if err != nil {
		return Agent{}, err
	}
	if a.Name == "" {
		// If the host name is unknown, checkAgent reports the missing name.
		a.Name, _ = os.Hostname()
	}
	if err := checkAgent(&a, from); err != nil {
		return Agent{}, err
	}
	a.Portal = strings.TrimSuffix(a.Portal, "/")
	return a, nil
}

// dialURL returns the URL at which other machines reach a listener. For a listener on all addresses, it has this
// machine's host name.
func dialURL(scheme, listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil || port == "0" {
		return ""
	}
	if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
		if host, err = os.Hostname(); err != nil {
			return ""
		}
	}
	return scheme + "://" + net.JoinHostPort(host, port)
}
