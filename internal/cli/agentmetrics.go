package cli

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"quantix/internal/auth"
	"quantix/internal/config"
)

// minMetricsToken is the least length of the token for the agent's /metrics.
const minMetricsToken = 16

// serveMetrics serves the agent's /metrics until ctx ends, and returns the address of its listener.
func serveMetrics(ctx context.Context, cfg config.Agent, handler http.Handler, log *slog.Logger) (net.Addr, error) {
	if cfg.MetricsToken != "" {
		token, err := readSecret(cfg.MetricsToken, strings.NewReader(""))
		if err != nil {
			return nil, fmt.Errorf("metricsToken: %w", err)
		}
		if len(token) < minMetricsToken {
			return nil, fmt.Errorf("metricsToken: the token in %s is shorter than %d characters; write one with: openssl rand -hex 32", cfg.MetricsToken, minMetricsToken)
		}
		handler = requireToken(token, handler)
	}
	var certificate *auth.FileCert
	if cfg.MetricsCert != "" {
		var err error
		if certificate, err = auth.OpenFileCert(cfg.MetricsCert, cfg.MetricsKey); err != nil {
			return nil, fmt.Errorf("metricsCert: %w", err)
		}
	}
	listener, err := net.Listen("tcp", cfg.MetricsListen)
	if err != nil {
		return nil, fmt.Errorf("listen for metrics: %w", err)
	}
	address := listener.Addr()
	if certificate != nil {
		listener = tls.NewListener(listener, certificate.TLS())
		go reloadCertificate(ctx, certificate, log)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", handler)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10}
	context.AfterFunc(ctx, func() { server.Close() })
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("the metrics listener failed", "error", err)
		}
	}()
	return address, nil
}

// requireToken refuses requests without the token.
func requireToken(token string, next http.Handler) http.Handler {
	want := sha256.Sum256([]byte(token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, sent, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		got := sha256.Sum256([]byte(strings.TrimSpace(sent)))
		if !strings.EqualFold(scheme, "Bearer") || subtle.ConstantTimeCompare(want[:], got[:]) != 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "Send the token of the agent's setting metricsToken: \"Authorization: Bearer …\".", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// reloadCertificate reads a renewed certificate until ctx ends.
func reloadCertificate(ctx context.Context, certificate *auth.FileCert, log *slog.Logger) {
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		_, err := certificate.Reload()
		if err != nil && !failing {
			log.Warn("the certificate of /metrics cannot be read again; the agent keeps its current one", "error", err)
		}
		failing = err != nil
	}
}
