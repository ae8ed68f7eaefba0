// Package config reads the settings of the portal and of the agent: a flag beats a QUANTIX_* variable, which beats the YAML
// file, which beats the default. One table a command names every setting once; all three spellings follow from it.
package config

import (
	"cmp"
	"net"
	"os"
	"strings"

	"github.com/spf13/pflag"
)

// Where the settings are read from when --config names no other file; either may be absent.
const (
	PortalFile = "/etc/quantix/portal.yaml"
	AgentFile  = "/etc/quantix/agent.yaml"
)

// Portal is everything an administrator can set on a portal.
type Portal struct {
	// Listen is the host:port for browsers and the API.
	Listen string `koanf:"listen"`
	// AgentListen is the host:port of the mutual-TLS listener for agents.
	AgentListen string `koanf:"agentListen"`
	// DataDir holds the portal's keys and the private PostgreSQL.
	DataDir string `koanf:"dataDir"`
	// SecretsKey is the file with the key that seals the key of the hosts' authority, pools' credentials and first boots. It is in
	// DataDir by default. Portals of one database share it.
	SecretsKey string `koanf:"secretsKey"`
	// PublicURL is the address that browsers and the join command use. Where none is set it follows from Listen; it is
	// empty while Listen's port is 0, which only the opened listener knows.
	PublicURL string `koanf:"publicUrl"`
	// AgentURL is the address that agents dial, as PublicURL from AgentListen. Before several portals it is the balancer's.
	AgentURL string `koanf:"agentUrl"`
	// PairURL is the address at which hosts find this very portal, for consoles, whose two halves must meet in one; AgentURL
	// where none is set.
	PairURL string `koanf:"pairUrl"`
	// TrustedProxies are the networks (CIDR) whose X-Forwarded-For is believed.
	TrustedProxies []string `koanf:"trustedProxies"`
	// ConnsPerAddress is the most connections at once of browsers and programs at one address; 0: no bound. Trusted proxies and
	// this machine have none.
	ConnsPerAddress int `koanf:"connsPerAddress"`
	// MACPrefix begins the MAC addresses that new network cards get.
	MACPrefix string `koanf:"macPrefix"`
	// RelayRate is how many MiB a second hosts that do not reach each other may send by way of this portal, all together; 0: as fast as it goes.
	RelayRate int `koanf:"relayRate"`
	// AuditMonths is how many whole months the audit is kept.
	AuditMonths int      `koanf:"auditMonths"`
	Database    Database `koanf:"database"`
	TLS         TLS      `koanf:"tls"`
	Log         Log      `koanf:"log"`
}

// Database says which PostgreSQL the portal uses.
type Database struct {
	// URL may hold a password and is never printed. Empty means a private PostgreSQL below the data directory.
	URL string `koanf:"url"`
	// MaxConns is the most connections that one portal opens.
	MaxConns int `koanf:"maxConns"`
}

// TLS names the PEM files of the listener for browsers; both or neither. With neither it speaks plain HTTP.
type TLS struct {
	Cert string `koanf:"cert"`
	Key  string `koanf:"key"`
}

// Log says how much is logged (debug, info, warn, error) and how (text, json).
type Log struct {
	Level  string `koanf:"level"`
	Format string `koanf:"format"`
}

// Agent is everything an administrator can set on an agent.
type Agent struct {
	// Portal is the URL that the agent dials; empty until the host has joined, which also remembers it.
	Portal string `koanf:"portal"`
	// Name is the host's name in the portal; the machine's own where none is set.
	Name string `koanf:"name"`
	// DataDir holds the agent's key, certificate and journal.
	DataDir string `koanf:"dataDir"`
	// Hypervisor is "libvirt" or "mock".
	Hypervisor string  `koanf:"hypervisor"`
	Libvirt    Libvirt `koanf:"libvirt"`
	// PoolRoots are the directories in which pools may be.
	PoolRoots []string `koanf:"poolRoots"`
	// PoolDevices are the block devices that pools may be on, as patterns of path.Match.
	PoolDevices []string `koanf:"poolDevices"`
	// FetchFrom are private, reserved or own networks (CIDR) from which volumes may be downloaded all the same.
	FetchFrom []string `koanf:"fetchFrom"`
	// FetchMost is how many GiB one download has at most.
	FetchMost int `koanf:"fetchMost"`
	// TransferPorts are those on which other hosts' disks and images are taken in: "first-last", one alone, empty for any, or "none".
	TransferPorts string `koanf:"transferPorts"`
	// NetworkConfirm is in how many seconds the portal must be reached after a change of the network that the agent is on; else it is undone.
	NetworkConfirm int `koanf:"networkConfirm"`
	// MetricsListen is the host:port of /metrics; empty serves none.
	MetricsListen string `koanf:"metricsListen"`
	Log           Log    `koanf:"log"`
}

// Libvirt says how the agent reaches libvirt.
type Libvirt struct {
	// Socket is the path of libvirtd's Unix socket.
	Socket string `koanf:"socket"`
}

// PortalFlags registers the portal's flags, and --config.
func PortalFlags(fs *pflag.FlagSet) { registerFlags(fs, portalSettings, PortalFile) }

// AgentFlags registers the agent's flags, and --config.
func AgentFlags(fs *pflag.FlagSet) { registerFlags(fs, agentSettings, AgentFile) }

// LoadPortal reads and checks the portal's settings. Flags come from PortalFlags (nil: none), env is os.Environ()'s form, and
// file is the file to read; where it is empty --config decides, or else PortalFile is read if it exists. The error
// names every wrong setting by the name under which it was given.
func LoadPortal(flags *pflag.FlagSet, env []string, file string) (Portal, error) {
	var p Portal
	from, err := load(&p, source{portalSettings, agentSettings, PortalFile}, flags, env, file)
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
		p.PublicURL = reachable(scheme, p.Listen)
	}
	if p.AgentURL == "" {
		p.AgentURL = reachable("https", p.AgentListen)
	}
	p.PairURL = cmp.Or(p.PairURL, p.AgentURL)
	return p, nil
}

// LoadAgent does for the agent what LoadPortal does for the portal.
func LoadAgent(flags *pflag.FlagSet, env []string, file string) (Agent, error) {
	var a Agent
	from, err := load(&a, source{agentSettings, portalSettings, AgentFile}, flags, env, file)
	if err != nil {
		return Agent{}, err
	}
	if a.Name == "" {
		// Without a name of its own the machine is refused below, with the setting that mends it.
		a.Name, _ = os.Hostname()
	}
	if err := checkAgent(a, from); err != nil {
		return Agent{}, err
	}
	a.Portal = strings.TrimSuffix(a.Portal, "/")
	return a, nil
}

// reachable is the URL of a listener as others can dial it: a listener on all addresses is known by the machine's name.
func reachable(scheme, listen string) string {
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
