package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"quantix/db"
	"quantix/internal/agentconn"
	"quantix/internal/auth"
	"quantix/internal/bmc/redfish"
	"quantix/internal/config"
	"quantix/internal/control"
	"quantix/internal/control/metrics"
	"quantix/internal/delivery"
	"quantix/internal/fleet"
	"quantix/internal/notify"
	"quantix/internal/pglocal"
	"quantix/internal/reconcile"
	"quantix/web"
)

// portal is a running portal.
type portal struct {
	URL      string // URL of the listener for browsers
	AgentURL string
	PairURL  string // URL of this portal for relay connections of hosts
	Control  *control.Control
	Password string // one-time password of the user admin if this start created that user; empty otherwise

	log      *slog.Logger
	hangups  <-chan os.Signal // each signal reloads the certificates; nil: no signals
	group    *errgroup.Group
	stop     context.CancelFunc
	cleanups []func() // cleanup functions, in the order of opening
}

// startPortal opens and migrates the database, then serves browsers and agents until ctx ends or Close is called. If it
// fails, it releases everything. If throwaway is true, the data may be lost in a power failure (demo and lab). Each
// signal from hangups reloads the certificates; hangups may be nil.
func startPortal(ctx context.Context, cfg config.Portal, log *slog.Logger, throwaway bool, hangups <-chan os.Signal) (*portal, error) {
	TuneGarbageCollector()
	p := &portal{log: log, hangups: hangups}
	if err := p.start(ctx, cfg, throwaway); err != nil {
		p.runCleanups()
		return nil, err
	}
	return p, nil
}

func (p *portal) start(ctx context.Context, cfg config.Portal, throwaway bool) error {
	// The settings are checked first, so that wrong settings fail before the database is changed.
	proxies, err := parsePrefixes("trusted proxy", cfg.TrustedProxies)
	if err != nil {
		return err
	}
	var certificate *auth.FileCert // nil: no TLS for browsers
	if cfg.TLS.Cert != "" {
		if certificate, err = auth.OpenFileCert(cfg.TLS.Cert, cfg.TLS.Key); err != nil {
			return err
		}
	}
	url, err := p.openDatabase(ctx, cfg, throwaway)
	if err != nil {
		return err
	}
	var pool *pgxpool.Pool
	if err := waitForDatabase(ctx, p.log, func() error {
		if cfg.Database.URL != "" {
			if err := db.CheckSessionMode(ctx, url); err != nil {
				return err
			}
		}
		if err := db.Migrate(ctx, url); err != nil {
			return err
		}
		var err error
		pool, err = db.OpenWithSetup(ctx, url, cfg.Database.MaxConns, control.WarmUp)
		return err
	}); err != nil {
		return databaseError(err)
	}
	p.cleanups = append(p.cleanups, pool.Close)
	vault, err := openVault(ctx, cfg, pool)
	if err != nil {
		return err
	}
	browsers, err := p.listen(cfg.Listen, "listen")
	if err != nil {
		return err
	}
	agents, err := p.listen(cfg.AgentListen, "agent-listen")
	if err != nil {
		return err
	}
	p.URL, p.AgentURL, p.PairURL = listenerURLs(cfg, browsers, agents)
	sender, err := newSender(cfg, p.URL)
	if err != nil {
		return err
	}
	bmcTo, err := parsePrefixes("bmcTo", cfg.BMCTo)
	if err != nil {
		return err
	}
	hub := notify.NewHub()
	p.Control = control.New(pool, control.Options{
		Log: p.log, Hub: hub, AgentURL: p.AgentURL, PairURL: p.PairURL, Vault: vault, MACPrefix: cfg.MACPrefix, AgentReleases: cfg.AgentReleases, AuditMonths: cfg.AuditMonths,
		MetricRetention: metricRetention(cfg.Metrics), Sender: sender, BMCs: redfish.New(bmcTo),
	})
	if p.Password, _, err = p.Control.EnsureAdmin(ctx, fleet.SystemActor); err != nil {
		return fmt.Errorf("make the first administrator: %w", err)
	}
	if err := p.publishAgentAddress(ctx); err != nil {
		return err
	}
	return p.serve(ctx, cfg, pool, hub, listeners{browsers: browsers, certificate: certificate, proxies: proxies, agents: agents})
}

// metricRetention returns how long points of metrics are kept. The zero settings are the default.
func metricRetention(m config.Metrics) metrics.Retention {
	const day = 24 * time.Hour
	return metrics.Retention{
		Samples: time.Duration(m.SampleHours) * time.Hour, Minutes: time.Duration(m.MinuteDays) * day,
		TenMinutes: time.Duration(m.TenMinuteDays) * day, TwoHours: time.Duration(m.TwoHourDays) * day,
	}
}

// openVault opens the vault that encrypts secrets in the database. The vault's key is in the configured file, or in
// secrets.key in the data directory. A missing secrets.key is generated only if the database contains no encrypted
// secret yet.
func openVault(ctx context.Context, cfg config.Portal, pool *pgxpool.Pool) (auth.Vault, error) {
	file, generate := cfg.SecretsKey, false
	if file == "" {
		file = filepath.Join(cfg.DataDir, "secrets.key")
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			keys, err := db.New(pool).SealedBy(ctx)
			if err != nil {
				return auth.Vault{}, fmt.Errorf("list the encrypted secrets in the database: %w", err)
			}
			if len(keys) > 0 {
				return auth.Vault{}, fmt.Errorf("the key %s is missing, and the database contains secrets that only that key decrypts (%s): credentials of pools, first-boot data or the key of the "+
					"hosts' authority. Restore the file from the backup of the portal's data directory, or set its path with --secrets-key", file, strings.Join(keys, ", "))
			}
			generate = true
		}
		// PostgreSQL runs as another user, which must be able to enter the directory.
		if err := os.MkdirAll(cfg.DataDir, 0o755); err != nil {
			return auth.Vault{}, err
		}
	}
	v, err := auth.OpenVault(file, generate)
	if err != nil {
		return v, fmt.Errorf("open the key that encrypts secrets: %w", err)
	}
	return v, nil
}

// listeners are the portal's open listeners, with the certificate and the trusted proxies of the listener for browsers.
type listeners struct {
	browsers    net.Listener
	certificate *auth.FileCert // nil: no TLS for browsers
	proxies     []netip.Prefix
	agents      net.Listener
}

// serve starts the portal's servers and background loops.
func (p *portal) serve(ctx context.Context, cfg config.Portal, pool *pgxpool.Pool, hub *notify.Hub, l listeners) error {
	authority, err := p.Control.Authority(ctx, fleet.SystemActor)
	if err != nil {
		return fmt.Errorf("open the authority that signs hosts' certificates: %w", err)
	}
	endpoint, err := authority.NewServerCert(certNames(cfg.AgentListen, p.AgentURL, p.PairURL))
	if err != nil {
		return err
	}
	certs := &certificates{browsers: l.certificate, agents: endpoint, authority: authority.Certificate(), log: p.log}
	secure := l.certificate != nil || hasScheme(p.URL, "https")
	server := web.New(web.Options{
		Control: p.Control, Hub: hub, Sessions: auth.NewSessionManager(pool, secure), Log: p.log, PublicURL: p.URL,
		Secure: secure, TrustedProxies: l.proxies, Version: versionText(), Ready: func(ctx context.Context) error { return p.Control.Ready(ctx, fleet.SystemActor) },
		RelayBytes:   int64(cfg.RelayRate) << 20,
		Pool:         func() web.DatabasePoolStat { return pool.Stat() },
		Certificates: certs.validities,
	})
	browsers := web.LimitConnsPerAddress(l.browsers, cfg.ConnsPerAddress, l.proxies)
	if l.certificate != nil {
		browsers = tls.NewListener(browsers, l.certificate.TLS())
	} else if !isLoopback(cfg.Listen) && !secure {
		p.log.Warn("browsers on other machines are served without TLS; set --tls-cert and --tls-key, or put a TLS proxy before the portal and set --public-url")
	}
	ctx, p.stop = context.WithCancel(context.WithoutCancel(ctx))
	p.group, ctx = errgroup.WithContext(ctx)
	p.group.Go(func() error { return certs.watch(ctx, p.hangups) })
	p.group.Go(func() error { return hub.Listen(ctx, pool.Config().ConnConfig, p.log) })
	p.group.Go(func() error { return p.Control.CheckDatabasePeriodically(ctx, fleet.SystemActor) })
	p.group.Go(func() error { return reconcile.Run(ctx, p.Control, hub, p.log) })
	p.group.Go(func() error {
		return runServer(ctx, browsers, &http.Server{Handler: server.Handler()}, time.Second, p.log)
	})
	p.group.Go(func() error {
		agentConns := agentconn.Listen(l.agents, endpoint.TLS())
		return runServer(ctx, agentConns, &http.Server{Handler: server.AgentHandler(), ConnContext: agentConns.ConnContext}, 0, p.log)
	})
	return nil
}

// runServer serves until ctx ends. Requests in progress then have the grace period to finish. After that, their
// contexts are cancelled, which ends streams, waiting claims and consoles.
func runServer(ctx context.Context, listener net.Listener, server *http.Server, grace time.Duration, log *slog.Logger) error {
	base, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	server.BaseContext = func(net.Listener) context.Context { return base }
	server.ReadHeaderTimeout, server.IdleTimeout, server.MaxHeaderBytes = 10*time.Second, 2*time.Minute, 32<<10
	server.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelDebug) // only at debug level: failed handshakes and disconnected clients
	stopped := make(chan struct{})
	context.AfterFunc(ctx, func() {
		defer close(stopped)
		defer time.AfterFunc(grace, cut).Stop()
		limit, cancel := context.WithTimeout(context.Background(), grace+5*time.Second)
		defer cancel()
		if server.Shutdown(limit) != nil {
			server.Close()
		}
	})
	err := server.Serve(listener)
	if errors.Is(err, http.ErrServerClosed) {
		<-stopped
		return nil
	}
	return err
}

// Wait blocks until ctx ends or one of the portal's loops fails.
func (p *portal) Wait(ctx context.Context) error {
	ended := make(chan error, 1)
	go func() { ended <- p.group.Wait() }()
	select {
	case <-ctx.Done():
		p.stop()
		return <-ended
	case err := <-ended:
		return err
	}
}

// Close stops the portal, and the private PostgreSQL if it started one. Wait, not Close, returns the error of the
// portal's loops.
func (p *portal) Close() {
	p.stop()
	_ = p.group.Wait()
	p.runCleanups()
}

func (p *portal) runCleanups() {
	for _, undo := range slices.Backward(p.cleanups) {
		undo()
	}
	p.cleanups = nil
}

// openDatabase returns the URL of the configured database, or of a private PostgreSQL, which it starts unless it
// already runs.
func (p *portal) openDatabase(ctx context.Context, cfg config.Portal, throwaway bool) (string, error) {
	if cfg.Database.URL != "" {
		return cfg.Database.URL, nil
	}
	server, err := pglocal.Start(ctx, pglocal.Options{
		Dir: filepath.Join(cfg.DataDir, "postgres"), Log: p.log, Unsafe: throwaway, DieWithParent: throwaway,
	})
	if err != nil {
		return "", err
	}
	p.cleanups = append(p.cleanups, func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := server.Stop(ctx); err != nil {
			p.log.Error("the private PostgreSQL did not stop", "error", err)
		}
	})
	return server.URL(), nil
}

func (p *portal) listen(address, flag string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		if why, ok := errors.AsType[syscall.Errno](err); ok {
			err = why
		}
		return nil, fmt.Errorf("cannot listen on %s: %w; choose another address with --%s", address, err, flag)
	}
	p.cleanups = append(p.cleanups, func() { l.Close() })
	return l, nil
}

// publishAgentAddress stores the address of the listener for agents in the database while the portal runs. The command
// "quantix host token" reads it there.
func (p *portal) publishAgentAddress(ctx context.Context) error {
	if err := p.Control.SetAgentAddress(ctx, fleet.SystemActor); err != nil {
		return fmt.Errorf("publish the portal's address: %w", err)
	}
	p.cleanups = append(p.cleanups, func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := p.Control.ForgetAgentAddress(ctx, fleet.SystemActor); err != nil {
			p.log.Debug("the portal's address stays in the database", "error", err)
		}
	})
	return nil
}

// newSender returns the sender of notifications.
func newSender(cfg config.Portal, portal string) (*delivery.Sender, error) {
	s := delivery.Settings{Portal: portal, Mail: delivery.Mail{Server: cfg.Mail.Server, TLS: cfg.Mail.TLS, From: cfg.Mail.From, User: cfg.Mail.User}}
	var err error
	if s.NotifyTo, err = parsePrefixes("notifyTo", cfg.NotifyTo); err != nil {
		return nil, err
	}
	if cfg.Mail.Server != "" && cfg.Mail.PasswordFile != "" {
		text, err := os.ReadFile(cfg.Mail.PasswordFile)
		if err != nil {
			return nil, fmt.Errorf("mail.passwordFile: %w", err)
		}
		s.Mail.Password, _, _ = strings.Cut(string(text), "\n")
	}
	return delivery.New(s), nil
}

// listenerURLs returns the URLs for browsers, agents and relays. A URL that the settings lack is derived from the
// listener's address.
func listenerURLs(cfg config.Portal, browsers, agents net.Listener) (public, agent, pair string) {
	public, agent = cfg.PublicURL, cfg.AgentURL
	if public == "" {
		scheme := "http://"
		if cfg.TLS.Cert != "" {
			scheme = "https://"
		}
		public = scheme + browsers.Addr().String()
	}
	if agent == "" {
		agent = "https://" + agents.Addr().String()
	}
	return public, agent, cmp.Or(cfg.PairURL, agent)
}

// certNames returns the names for which the agent certificate is valid: the hosts of the URLs, and the names of the
// listener and of this machine.
func certNames(listen string, urls ...string) []string {
	names := []string{"localhost", "127.0.0.1", "::1"}
	for _, address := range urls {
		if u, err := url.Parse(address); err == nil && u.Hostname() != "" {
			names = append(names, u.Hostname())
		}
	}
	if host, _, err := net.SplitHostPort(listen); err == nil && host != "" && !net.ParseIP(host).IsUnspecified() {
		names = append(names, host)
	}
	if name, err := os.Hostname(); err == nil {
		names = append(names, name)
	}
	return names
}

func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && (host == "localhost" || net.ParseIP(host).IsLoopback())
}

func hasScheme(address, scheme string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Scheme == scheme
}

func parsePrefixes(what string, cidrs []string) ([]netip.Prefix, error) {
	out := make([]netip.Prefix, len(cidrs))
	for i, c := range cidrs {
		p, err := netip.ParsePrefix(c)
		if err != nil {
			return nil, fmt.Errorf("%s %q: %w", what, c, err)
		}
		out[i] = p
	}
	return out, nil
}
