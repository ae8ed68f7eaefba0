package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"quantix/internal/config"
)

// demoLabFlags holds the flags that demo and lab share.
type demoLabFlags struct {
	listen, dataDir string
	agents          string // address of the listener for agents; empty: loopback
	json            bool
	log             config.Log
	agentReleases   string // the directory with releases of the agent; empty: none
}

func (f *demoLabFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.listen, "listen", "127.0.0.1:8080", "host:port for browsers and the API; port 0: any free port")
	flags.StringVar(&f.dataDir, "data-dir", "", "store all data in this directory (default: a temporary one, removed at the end)")
	flags.BoolVar(&f.json, "json", false, "print one line of JSON on standard output once all is ready")
	flags.StringVar(&f.log.Level, "log-level", "warn", "how much to log: debug, info, warn or error")
	f.log.Format = "text"
}

// openDataDir returns the data directory, and a function that removes the directory if it is temporary. Other users
// cannot list or write the directory. If this process is root, they can enter it, because PostgreSQL runs as another
// user; private files in it have their own mode.
func (f *demoLabFlags) openDataDir(name string) (string, func(), error) {
	mode := os.FileMode(0o700)
	if os.Geteuid() == 0 {
		mode = 0o711
	}
	if f.dataDir == "" {
		dir, err := os.MkdirTemp("", "quantix-"+name+"-")
		if err != nil {
			return "", nil, fmt.Errorf("make a temporary directory: %w", err)
		}
		return dir, func() { os.RemoveAll(dir) }, os.Chmod(dir, mode)
	}
	if err := os.MkdirAll(f.dataDir, mode); err != nil {
		return "", nil, fmt.Errorf("create the data directory: %w", err)
	}
	info, err := os.Stat(f.dataDir)
	if err != nil {
		return "", nil, fmt.Errorf("read the data directory's mode: %w", err)
	}
	if info.Mode().Perm()&0o022 != 0 {
		return "", nil, fmt.Errorf("other users may write %s (mode %04o): give --data-dir a directory that only you can write, or run chmod go-w on this one", f.dataDir, info.Mode().Perm())
	}
	return f.dataDir, func() {}, nil
}

// startPortal starts the portal in dir. The listener for agents gets the same address at each start, so that joined
// agents can reach it.
func (f *demoLabFlags) startPortal(ctx context.Context, dir string, log *slog.Logger) (*portal, error) {
	file := filepath.Join(dir, "agent-address")
	known, _ := os.ReadFile(file) // the file is missing at the first start
	p, err := startPortal(ctx, f.portalConfig(dir, strings.TrimSpace(string(known))), log, f.dataDir == "", nil)
	if err != nil || len(known) > 0 {
		return p, err
	}
	if err := os.WriteFile(file, []byte(strings.TrimPrefix(p.AgentURL, "https://")+"\n"), 0o600); err != nil {
		p.Close()
		return nil, fmt.Errorf("store the address of the agent listener: %w", err)
	}
	return p, nil
}

// portalConfig returns the settings of a portal in dir. known is the previous address of the listener for agents, empty
// at the first start. If another process now uses that address, the portal gets a new one; the agents start together
// with the portal and get the new address.
func (f *demoLabFlags) portalConfig(dir, known string) config.Portal {
	// Simulated BMCs run on this machine, as the hosts do.
	cfg := config.Portal{Listen: f.listen, AgentListen: net.JoinHostPort(cmp.Or(f.agents, "127.0.0.1"), "0"), DataDir: dir, Log: f.log, AgentReleases: f.agentReleases, BMCTo: []string{"127.0.0.0/8"}}
	if known != "" {
		if l, err := net.Listen("tcp", known); err == nil {
			l.Close()
			cfg.AgentListen = known
		}
	}
	cfg.Database.MaxConns = 20
	if host, _, err := net.SplitHostPort(f.listen); err == nil && host == "" {
		cfg.Listen = "0.0.0.0" + f.listen
	}
	return cfg
}

// readyReport is the information that demo and lab print once they are ready, for scripts as one line of JSON.
type readyReport struct {
	URL      string      `json:"url"`
	User     string      `json:"user"`
	Password string      `json:"password"`
	APIToken string      `json:"apiToken"`
	Hosts    []readyHost `json:"hosts"`
}

type readyHost struct {
	Name       string `json:"name"`
	LibvirtURI string `json:"libvirtUri"` // empty for a simulated host
}

// print writes r: as JSON for scripts, or as text with hints for people.
func (r readyReport) print(out io.Writer, asJSON bool, hints []string) error {
	if asJSON {
		return json.NewEncoder(out).Encode(r)
	}
	fmt.Fprintf(out, "\n  Quantix is ready: %s\n  Sign in as %q with the one-time password  %s\n\n", r.URL, r.User, r.Password)
	for _, h := range hints {
		fmt.Fprintln(out, "  "+h)
	}
	_, err := fmt.Fprint(out, "\n  Ctrl-C stops everything.\n\n")
	return err
}

// passwordPlaceholder is printed instead of a password if the data directory was used before and no one-time password
// exists.
const passwordPlaceholder = "(the one that you chose earlier)"

const (
	pollEvery  = 100 * time.Millisecond
	settleTime = 2 * time.Minute // time limit for hosts, pools and VMs of demo and lab to become ready
)
