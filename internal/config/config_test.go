package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

// givenSettings holds the settings that a test passes by file, environment and flags.
type givenSettings struct {
	yaml  string
	env   []string
	flags []string
}

func (g givenSettings) portal(t *testing.T) (Portal, error) {
	t.Helper()
	fs := pflag.NewFlagSet("portal", pflag.ContinueOnError)
	PortalFlags(fs)
	if err := fs.Parse(g.flags); err != nil {
		t.Fatal(err)
	}
	return LoadPortal(fs, g.env, g.file(t, "portal.yaml"))
}

func (g givenSettings) agent(t *testing.T) (Agent, error) {
	t.Helper()
	fs := pflag.NewFlagSet("agent", pflag.ContinueOnError)
	AgentFlags(fs)
	if err := fs.Parse(g.flags); err != nil {
		t.Fatal(err)
	}
	return LoadAgent(fs, g.env, g.file(t, "agent.yaml"))
}

func (g givenSettings) file(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(g.yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func portalDefaults() Portal {
	return Portal{
		Listen: "127.0.0.1:8443", AgentListen: "127.0.0.1:8444", DataDir: "/var/lib/quantix",
		PublicURL: "http://127.0.0.1:8443", AgentURL: "https://127.0.0.1:8444", PairURL: "https://127.0.0.1:8444",
		ConnsPerAddress: 256, MACPrefix: "52:54:00", AuditMonths: 24, Mail: Mail{TLS: "starttls"}, Metrics: Metrics{2, 2, 35, 730}, RelayRate: 64, Database: Database{MaxConns: 20}, Log: Log{Level: "info", Format: "text"},
	}
}

func TestPortalSettingsReadFromAllSources(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		given givenSettings
		want  func(*Portal)
	}{
		"no settings":    {givenSettings{}, func(*Portal) {}},
		"only a comment": {givenSettings{yaml: "# later\n"}, func(*Portal) {}},
		"file": {
			givenSettings{yaml: `
listen: ":9443"
dataDir: /srv/quantix
publicUrl: https://portal.example/
notifyTo: [10.20.0.1/16]
mail: {server: "mail.example:587", tls: tls, from: quantix@example.org, user: q, passwordFile: /etc/mail}
agentUrl: https://portal.example:9444
pairUrl: https://portal-1.example:9444/
trustedProxies:
  - 10.1.2.3/8
  - 192.0.2.7
database:
  url: postgres://q:s@db/quantix
  maxConns: 40
tls: {cert: /c.pem, key: /k.pem}
log: {level: debug, format: json}
metrics: {sampleHours: 24, minuteDays: 7, tenMinuteDays: 100, twoHourDays: 365}
`},
			func(p *Portal) {
				p.NotifyTo, p.Mail = []string{"10.20.0.0/16"}, Mail{"mail.example:587", "tls", "quantix@example.org", "q", "/etc/mail"}
				p.Metrics = Metrics{24, 7, 100, 365}
				p.Listen, p.DataDir = ":9443", "/srv/quantix"
				p.PublicURL, p.AgentURL, p.PairURL = "https://portal.example", "https://portal.example:9444", "https://portal-1.example:9444"
				p.TrustedProxies = []string{"10.0.0.0/8", "192.0.2.7/32"}
				p.Database = Database{URL: "postgres://q:s@db/quantix", MaxConns: 40}
				p.TLS = TLS{Cert: "/c.pem", Key: "/k.pem"}
				p.Log = Log{Level: "debug", Format: "json"}
			},
		},
		"environment beats file": {
			givenSettings{
				yaml: "database: {maxConns: 40}\nlog: {level: debug}\ntrustedProxies: [10.0.0.0/8]\n",
				env:  []string{"QUANTIX_DATABASE_MAX_CONNS=50", "QUANTIX_TRUSTED_PROXIES=172.16.0.0/12, ::1", "PATH=/bin"},
			},
			func(p *Portal) {
				p.Database.MaxConns, p.Log.Level = 50, "debug"
				p.TrustedProxies = []string{"172.16.0.0/12", "::1/128"}
			},
		},
		"flag beats environment": {
			givenSettings{
				yaml:  "database: {maxConns: 40}\n",
				env:   []string{"QUANTIX_DATABASE_MAX_CONNS=50", "QUANTIX_DATA_DIR=/env"},
				flags: []string{"--database-max-conns=60", "--log-format=json"},
			},
			func(p *Portal) { p.Database.MaxConns, p.DataDir, p.Log.Format = 60, "/env", "json" },
		},
		"a flag with the default value overrides": {
			givenSettings{env: []string{"QUANTIX_LOG_LEVEL=debug"}, flags: []string{"--log-level=info"}},
			func(*Portal) {},
		},
		"variables of the agent and of tests are ignored": {
			givenSettings{env: []string{"QUANTIX_HYPERVISOR=mock", "QUANTIX_TEST_X=1"}},
			func(*Portal) {},
		},
		"port not known yet": {
			givenSettings{flags: []string{"--listen=127.0.0.1:0", "--agent-listen=127.0.0.1:0"}},
			func(p *Portal) {
				p.Listen, p.AgentListen, p.PublicURL, p.AgentURL, p.PairURL = "127.0.0.1:0", "127.0.0.1:0", "", "", ""
			},
		},
		"wildcard address becomes the hostname": {
			givenSettings{flags: []string{"--listen=:8443"}},
			func(p *Portal) {
				host, _ := os.Hostname()
				p.Listen, p.PublicURL = ":8443", "http://"+host+":8443"
			},
		},
		"an alias in the file": {
			givenSettings{yaml: "dataDir: &d /srv\nlog: {level: info}\ntls: {cert: *d, key: *d}\n"},
			func(p *Portal) { p.DataDir, p.TLS, p.PublicURL = "/srv", TLS{"/srv", "/srv"}, "https://127.0.0.1:8443" },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := c.given.portal(t)
			if err != nil {
				t.Fatal(err)
			}
			want := portalDefaults()
			c.want(&want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("want -, got +:\n%s", diff)
			}
		})
	}
}

func TestAgentSettingsReadFromAllSources(t *testing.T) {
	t.Parallel()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		given givenSettings
		want  Agent
	}{
		"no settings": {
			givenSettings{},
			Agent{
				Name: host, DataDir: "/var/lib/quantix-agent", Hypervisor: "libvirt",
				Libvirt: Libvirt{Socket: "/run/libvirt/libvirt-sock"}, PoolRoots: PoolRoots, FetchMost: 64, KernelLog: "/dev/kmsg", NetworkConfirm: 30, Labels: map[string]string{}, Log: Log{Level: "info", Format: "text"},
			},
		},
		"file, environment and flags": {
			givenSettings{
				yaml:  "portal: https://portal.example:8444/\nlibvirt: {socket: /a}\npoolRoots: [/srv, /vmdata]\npoolDevices: [/dev/disk/by-id/*]\nfetchFrom: [10.1.2.3/8, 192.0.2.7]\nfetchMost: 8\nreportInterval: 20\nhostPower: true\nlabels:\n  rack: r4\n  ssd: ''\n",
				env:   []string{"QUANTIX_LIBVIRT_SOCKET=/b", "QUANTIX_NAME=h1", "QUANTIX_DATABASE_URL=postgres://x"},
				flags: []string{"--hypervisor", "mock", "--metrics-listen", "127.0.0.1:9100"},
			},
			Agent{
				Portal: "https://portal.example:8444", Name: "h1", DataDir: "/var/lib/quantix-agent", Hypervisor: "mock",
				Libvirt: Libvirt{Socket: "/b"}, PoolRoots: []string{"/srv", "/vmdata"}, PoolDevices: []string{"/dev/disk/by-id/*"}, FetchFrom: []string{"10.0.0.0/8", "192.0.2.7/32"}, FetchMost: 8, KernelLog: "/dev/kmsg", NetworkConfirm: 30, MetricsListen: "127.0.0.1:9100", Log: Log{Level: "info", Format: "text"},
				ReportInterval: 20, HostPower: true, LabelList: []string{"rack=r4", "ssd="}, Labels: map[string]string{"rack": "r4", "ssd": ""},
			},
		},
		"labels by variable win over those of the file": {
			givenSettings{yaml: "name: h1\nlabels: [rack=r4]\n", env: []string{"QUANTIX_LABELS=rack=r5,zone=b", "QUANTIX_REPORT_INTERVAL=5"}},
			Agent{
				Name: "h1", DataDir: "/var/lib/quantix-agent", Hypervisor: "libvirt", Libvirt: Libvirt{Socket: "/run/libvirt/libvirt-sock"}, PoolRoots: PoolRoots,
				FetchMost: 64, KernelLog: "/dev/kmsg", NetworkConfirm: 30, Log: Log{Level: "info", Format: "text"},
				ReportInterval: 5, LabelList: []string{"rack=r5", "zone=b"}, Labels: map[string]string{"rack": "r5", "zone": "b"},
			},
		},
		"labels by flag": {
			givenSettings{yaml: "name: h1\n", flags: []string{"--labels", "rack=r4,zone=b", "--host-power"}},
			Agent{
				HostPower: true,
				Name:      "h1", DataDir: "/var/lib/quantix-agent", Hypervisor: "libvirt", Libvirt: Libvirt{Socket: "/run/libvirt/libvirt-sock"}, PoolRoots: PoolRoots,
				FetchMost: 64, KernelLog: "/dev/kmsg", NetworkConfirm: 30, Log: Log{Level: "info", Format: "text"},
				LabelList: []string{"rack=r4", "zone=b"}, Labels: map[string]string{"rack": "r4", "zone": "b"},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := c.given.agent(t)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("want -, got +:\n%s", diff)
			}
		})
	}
}

func TestInvalidPortalSettingsAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		given givenSettings
		want  []string
	}{
		"an unknown key, with its line": {
			givenSettings{yaml: "listen: :1\ndatabase:\n  ulr: x\n"},
			[]string{`portal.yaml:3: unknown key "database.ulr"; did you mean "database.url"?`},
		},
		"a mail server without a sender": {givenSettings{yaml: "mail: {server: mail.example:587}\n"}, []string{`mail.from: "" is not an e-mail address`}},
		"a mail password without encryption": {
			givenSettings{yaml: "mail: {server: mail.example:25, tls: none, from: q@example.org, user: q, passwordFile: /p}\n"},
			[]string{"mail.tls: a password is not sent without encryption"},
		},
		"a receiver network that is a name": {givenSettings{yaml: "notifyTo: [hooks.example]\n"}, []string{`notifyTo: "hooks.example" is not a network`}},
		"another spelling of a key":         {givenSettings{yaml: "data-dir: /x\n"}, []string{`unknown key "data-dir"; did you mean "dataDir"?`}},
		"a key without a similar one":       {givenSettings{yaml: "colour: red\n"}, []string{`portal.yaml:1: unknown key "colour"`}},
		"the agent's key":                   {givenSettings{yaml: "libvirt: {socket: /x}\n"}, []string{`unknown key "libvirt"; it belongs in the other program's file`}},
		"a text for a number":               {givenSettings{yaml: "database:\n  maxConns: many\n"}, []string{`portal.yaml:2: "database.maxConns" must be a whole number, not a text`}},
		"a number for a text":               {givenSettings{yaml: "listen: 8443\n"}, []string{`:1: "listen" must be a text`, "not a number"}},
		"a text for a list":                 {givenSettings{yaml: "trustedProxies: 10.0.0.0/8\n"}, []string{`"trustedProxies" must be a list of texts`}},
		"nothing for a text":                {givenSettings{yaml: "dataDir:\n"}, []string{`"dataDir" must be a text`, "not empty"}},
		"a text for a group":                {givenSettings{yaml: "tls: on\n"}, []string{`"tls" must be a group of settings`}},
		"a list for the file":               {givenSettings{yaml: "- listen\n"}, []string{"the file must be a group of settings"}},
		"a key twice":                       {givenSettings{yaml: "dataDir: /a\ndataDir: /b\n"}, []string{`portal.yaml:2: "dataDir" is set twice`}},
		"two documents":                     {givenSettings{yaml: "dataDir: /a\n---\ndataDir: /b\n"}, []string{"one YAML document"}},
		"invalid YAML":                      {givenSettings{yaml: "listen: [\n"}, []string{"portal.yaml: line "}},
		"several errors":                    {givenSettings{yaml: "a: 1\nb: 2\n"}, []string{`:1: unknown key "a"`, `:2: unknown key "b"`}},
		"an unknown variable":               {givenSettings{env: []string{"QUANTIX_DATABSE_URL=x"}}, []string{`QUANTIX_DATABSE_URL: there is no such setting; did you mean "QUANTIX_DATABASE_URL"?`}},
		"text for a number in a variable":   {givenSettings{env: []string{"QUANTIX_DATABASE_MAX_CONNS=ten"}}, []string{`QUANTIX_DATABASE_MAX_CONNS: "ten" is not a whole number`}},
		"no address, by flag":               {givenSettings{flags: []string{"--listen=8443"}}, []string{`--listen: "8443" is not an address`}},
		"no address, by file":               {givenSettings{yaml: "\nlisten: localhost:99999\n"}, []string{`portal.yaml:2: listen: "localhost:99999" is not an address`}},
		"one address for both listeners":    {givenSettings{flags: []string{"--listen=:1", "--agent-listen=:1"}}, []string{"--agent-listen", "is also the address of listen"}},
		"a certificate without key":         {givenSettings{flags: []string{"--tls-cert=/c"}}, []string{"--tls-cert: a certificate needs its key"}},
		"a key without certificate":         {givenSettings{env: []string{"QUANTIX_TLS_KEY=/k"}}, []string{"QUANTIX_TLS_KEY: a key needs its certificate"}},
		"an unknown level":                  {givenSettings{flags: []string{"--log-level=loud"}}, []string{`--log-level: "loud" is not known; choose one of debug, info, warn, error`}},
		"no network":                        {givenSettings{flags: []string{"--trusted-proxies=here"}}, []string{`"here" is not a network`}},
		"plain HTTP for agents":             {givenSettings{flags: []string{"--agent-url=http://x"}}, []string{"--agent-url", "https://host"}},
		"a URL with a path":                 {givenSettings{flags: []string{"--public-url=https://x/quantix"}}, []string{"--public-url"}},
		"an empty data directory":           {givenSettings{flags: []string{"--data-dir="}}, []string{"--data-dir: it must not be empty"}},
		"too few connections":               {givenSettings{flags: []string{"--database-max-conns=1"}}, []string{"choose 2 to 10000"}},
		"metrics kept too short":            {givenSettings{flags: []string{"--metrics-sample-hours=1"}}, []string{"--metrics-sample-hours: 1 is out of range; choose 2 to 48"}},
		"coarse metrics kept too short":     {givenSettings{yaml: "metrics: {tenMinuteDays: 400, twoHourDays: 399}\n"}, []string{"portal.yaml:1: metrics.twoHourDays: 399 is out of range; choose 400 to 3660"}},
		"a database of another kind":        {givenSettings{env: []string{"QUANTIX_DATABASE_URL=mysql://u:hunter2@h/d"}}, []string{"QUANTIX_DATABASE_URL: this is not the URL of a PostgreSQL"}},
		"invalid database URL": {
			givenSettings{yaml: "database:\n  url: 'postgres://u:hunter2%@h/d'\n"},
			[]string{"portal.yaml:2: database.url: this is not the URL of a PostgreSQL"},
		},
		"a password where a group should be": {givenSettings{yaml: "database: postgres://u:hunter2@h/d\n"}, []string{`"database" must be a group`}},
		"a password in a list":               {givenSettings{yaml: "database: {url: [hunter2]}\n"}, []string{`"database.url" must be a text`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := c.given.portal(t)
			if err == nil {
				t.Fatal("was accepted")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %q, want %q in it", err, want)
				}
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the password is in the error: %q", err)
			}
		})
	}
}

func TestInvalidAgentSettingsAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		given givenSettings
		want  string
	}{
		"an unknown hypervisor":    {givenSettings{flags: []string{"--hypervisor=xen"}}, `--hypervisor: "xen" is not known; choose one of libvirt, mock`},
		"plain HTTP":               {givenSettings{yaml: "portal: http://p\n"}, "agent.yaml:1: portal: "},
		"a relative socket":        {givenSettings{env: []string{"QUANTIX_LIBVIRT_SOCKET=sock"}}, `QUANTIX_LIBVIRT_SOCKET: "sock" is not an absolute path`},
		"pools anywhere":           {givenSettings{flags: []string{"--pool-roots=/srv,/"}}, "--pool-roots"},
		"a relative root of pools": {givenSettings{env: []string{"QUANTIX_POOL_ROOTS=srv"}}, "QUANTIX_POOL_ROOTS"},
		"no address for metrics":   {givenSettings{flags: []string{"--metrics-listen=yes"}}, "--metrics-listen"},
		"an unknown variable":      {givenSettings{env: []string{"QUANTIX_PORTL=x"}}, `did you mean "QUANTIX_PORTAL"?`},
		"the portal's key":         {givenSettings{yaml: "database: {url: x}\n"}, "belongs in the other program's file"},
		"too short an interval":    {givenSettings{yaml: "reportInterval: 4\n"}, "agent.yaml:1: reportInterval: 4 is out of range; choose 5 to 60"},
		"too long an interval":     {givenSettings{flags: []string{"--report-interval=61"}}, "--report-interval: 61 is out of range"},
		"a label key in capitals":  {givenSettings{yaml: "name: x\nlabels: {Rack: r4}\n"}, `agent.yaml:2: labels: Label key "Rack": use lower-case letters`},
		"a number for a boolean":   {givenSettings{yaml: "hostPower: 1\n"}, `"hostPower" must be true or false, not a number`},
		"a text for true or false": {givenSettings{env: []string{"QUANTIX_HOST_POWER=maybe"}}, `QUANTIX_HOST_POWER: "maybe" is not true or false`},
		"a number as a label":      {givenSettings{yaml: "labels: {rack: 4}\n"}, `"labels" must be a group of texts`},
		"a text for labels":        {givenSettings{yaml: "labels: rack\n"}, `"labels" must be a group of texts`},
		"a label twice":            {givenSettings{env: []string{"QUANTIX_LABELS=rack=4,rack=5"}}, `QUANTIX_LABELS: the label "rack" is set twice`},
		"an empty name in quotes":  {givenSettings{yaml: "name: ' '\n"}, "agent.yaml:1: name: it must not be empty"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := c.given.agent(t); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q in it", err, c.want)
			}
		})
	}
}

func TestConfigFlagSelectsSettingsFile(t *testing.T) {
	t.Parallel()
	load := func(path string) (Portal, error) {
		fs := pflag.NewFlagSet("portal", pflag.ContinueOnError)
		PortalFlags(fs)
		if err := fs.Parse([]string{"--config", path}); err != nil {
			t.Fatal(err)
		}
		return LoadPortal(fs, nil, "")
	}
	if p, err := load(givenSettings{yaml: "dataDir: /srv\n"}.file(t, "mine.yaml")); err != nil || p.DataDir != "/srv" {
		t.Errorf("got %q, %v", p.DataDir, err)
	}
	if _, err := load(filepath.Join(t.TempDir(), "none.yaml")); err == nil || !strings.Contains(err.Error(), "none.yaml") {
		t.Errorf("a file that was named must exist; got %v", err)
	}
}

func TestHelpListsFlagEnvironmentVariableAndFileKey(t *testing.T) {
	t.Parallel()
	fs := pflag.NewFlagSet("portal", pflag.ContinueOnError)
	PortalFlags(fs)
	usage := fs.FlagUsages()
	for _, want := range []string{"--database-max-conns connections", "QUANTIX_DATABASE_MAX_CONNS", "database.maxConns", "(default 20)", PortalFile} {
		if !strings.Contains(usage, want) {
			t.Errorf("%q is missing in:\n%s", want, usage)
		}
	}
}

// A database URL may name several servers for failover; net/url rejects such hosts in other schemes.
func TestDatabaseURLWithSeveralHostsAccepted(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"postgres://quantix@pg1.example.org,pg2.example.org/quantix?target_session_attrs=read-write", "postgres://q:s@127.0.0.1:5432,127.0.0.1:5433/q"} {
		p, err := LoadPortal(nil, []string{"QUANTIX_DATABASE_URL=" + url}, os.DevNull)
		if err != nil || p.Database.URL != url {
			t.Errorf("%s: %v", url, err)
		}
	}
}
