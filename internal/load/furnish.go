package load

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/testkit/client"
	"quantix/internal/wire"
)

// made is what stands in the portal because of a run.
type made struct {
	project fleet.ProjectID
	hosts   []fleet.HostID
	pools   []fleet.PoolID
	users   []fleet.UserID
	vms     bool
}

// settling is how long the hosts may need in all until their VMs run, or are gone.
func (r *run) settling() time.Duration {
	return 2*time.Minute + time.Duration(r.o.VMs)*50*time.Millisecond
}

// furnish makes the fleet.
func (r *run) furnish(ctx, life context.Context) error {
	if len(r.o.Joined) > 0 {
		return r.adopt(ctx, life)
	}
	began := time.Now()
	if err := r.joinHosts(ctx, life); err != nil {
		return fmt.Errorf("join hosts: %w", err)
	}
	r.say("%d hosts have joined and reported in %s", r.o.Hosts, since(began))
	if err := r.makePools(ctx); err != nil {
		return fmt.Errorf("make pools: %w", err)
	}
	if r.o.VMs == 0 {
		return nil
	}
	began = time.Now()
	if err := r.makeVMs(ctx); err != nil {
		return fmt.Errorf("make VMs: %w", err)
	}
	err := poll(ctx, "the start of the VMs", r.settling(), func() (bool, error) { return r.running() >= r.o.VMs, nil })
	if err != nil {
		return fmt.Errorf("%w: %d of %d run; %s", err, r.running(), r.o.VMs, r.firstFault())
	}
	r.say("%d VMs are made and run after %s", r.o.VMs, since(began))
	return nil
}

// joinHosts joins them as people and agents do. All use one key, which is made here: the portal demands one of each host, not another one.
func (r *run) joinHosts(ctx, life context.Context) error {
	key, request, err := newKey()
	if err != nil {
		return err
	}
	var trusted sync.Map // the authority's certificate, PEM -> *x509.CertPool: all hosts share one
	return each(ctx, r.o.Hosts, joining, func(ctx context.Context, i int) error {
		token, err := r.api.CreateJoinToken(ctx, "")
		if err != nil {
			return err
		}
		address := r.agentsAt(token)
		answer, err := wire.Join(ctx, address, token.Secret, wire.JoinRequest{
			Name: fmt.Sprintf("%s-h%05d", r.name, i+1), HostUUID: fleet.NewID[string](), CSR: request,
		})
		if err != nil {
			return fmt.Errorf("join at %s: %w", address, err)
		}
		r.mu.Lock()
		r.made.hosts = append(r.made.hosts, answer.HostID)
		r.mu.Unlock()
		h := Host{ID: answer.HostID, Name: answer.Name}
		block, _ := pem.Decode([]byte(answer.Cert))
		if block == nil {
			return errors.New("the portal's answer holds no certificate")
		}
		h.Certificate = tls.Certificate{Certificate: [][]byte{block.Bytes}, PrivateKey: key}
		pool, known := trusted.Load(answer.CA)
		if !known {
			own := x509.NewCertPool()
			own.AppendCertsFromPEM([]byte(answer.CA))
			pool, _ = trusted.LoadOrStore(answer.CA, own)
		}
		h.CA = pool.(*x509.CertPool)
		a, err := r.newAgent(h)
		if err != nil {
			return err
		}
		return a.live(life)
	})
}

// agentsAt is where agents are: what was said, or the address in the token's command.
func (r *run) agentsAt(token fleet.JoinToken) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.o.Agents == "" {
		words := strings.Fields(token.Command)
		if i := slices.Index(words, "--portal"); i >= 0 && i+1 < len(words) {
			r.o.Agents = words[i+1]
		}
	}
	return r.o.Agents
}

func newKey() (*ecdsa.PrivateKey, string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, "", err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	return key, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})), err
}

// together is on how many hosts a pool is made at once; it comes onto the others one by one.
const together = 50

// makePools makes shared pools on all hosts, and waits until all have them.
func (r *run) makePools(ctx context.Context) error {
	began := time.Now()
	first, others := r.made.hosts[:min(together, r.o.Hosts)], r.made.hosts[min(together, r.o.Hosts):]
	for i := range r.o.Pools {
		p, err := r.api.CreatePool(ctx, client.NewPool{
			Name: fmt.Sprintf("%s-p%d", r.name, i+1), HostIDs: first,
			Spec: fleet.PoolSpec{Kind: fleet.PoolDir, Path: fmt.Sprintf("/srv/%s-p%d", r.name, i+1), Shared: true},
		})
		if err != nil {
			return err
		}
		r.made.pools = append(r.made.pools, p.ID)
		if r.o.Database != "" {
			continue
		}
		err = each(ctx, len(others), asking, func(ctx context.Context, i int) error {
			_, err := r.api.AssignPool(ctx, p.ID, others[i])
			return err
		})
		if err != nil {
			return err
		}
	}
	if r.o.Database != "" {
		if err := r.seedPools(ctx, others); err != nil {
			return err
		}
	}
	defer func() { r.say("%d pools are on all hosts after %s", r.o.Pools, since(began)) }()
	return poll(ctx, "the start of the pools", r.settling(), func() (bool, error) {
		for _, id := range r.made.pools {
			p, err := r.api.Pool(ctx, id)
			if err != nil || p.Health.Healthy < r.o.Hosts {
				return false, err
			}
		}
		return true, nil
	})
}

// makeVMs makes them as people do, or at once in the database where that was said.
func (r *run) makeVMs(ctx context.Context) error {
	project, err := r.api.CreateProject(ctx, client.NewProject{Name: r.name, Description: "Made by quantix load, which takes it away again."})
	if err != nil {
		return err
	}
	r.made.project, r.made.vms = project.ID, true
	if r.o.Database != "" {
		return r.seed(ctx)
	}
	return each(ctx, r.o.VMs, asking, func(ctx context.Context, i int) error {
		in := client.NewVM{
			ProjectID: project.ID, Name: fmt.Sprintf("%s-%06d", r.name, i+1), HostID: r.made.hosts[i%len(r.made.hosts)], Labels: labelsOf(i), Start: true,
			Spec: fleet.VMSpec{CPUs: 1 + i%8, MemoryMiB: 512 * (1 + i%16), NICs: []fleet.NIC{{Network: "default"}}},
		}
		if len(r.made.pools) > 0 {
			in.Spec.Disks = []fleet.Disk{{PoolID: r.made.pools[i%len(r.made.pools)], SizeBytes: 10 << 30}}
		}
		if _, err := r.api.CreateVM(ctx, in, ""); err != nil {
			return err
		}
		if (i+1)%5000 == 0 {
			r.say("%d VMs are asked for, %d run", i+1, r.running())
		}
		return nil
	})
}

func labelsOf(i int) map[string]string {
	return map[string]string{"env": []string{"prod", "stage", "test"}[i%3], "tier": fmt.Sprintf("t%d", i%7)}
}

// adopt speaks for hosts that are there already.
func (r *run) adopt(ctx, life context.Context) error {
	began := time.Now()
	for _, h := range r.o.Joined {
		if _, err := r.newAgent(h); err != nil {
			return err
		}
	}
	if err := r.learn(ctx); err != nil {
		return err
	}
	err := each(ctx, len(r.agents), joining, func(_ context.Context, i int) error { return r.agents[i].live(life) })
	r.say("%d hosts with %d VMs have reported in %s", len(r.agents), r.running(), since(began))
	return err
}

// learn reads which VMs the hosts have.
func (r *run) learn(ctx context.Context) error {
	for q := (fleet.Query{Limit: 500}); ; {
		page, err := r.api.VMs(ctx, q)
		if err != nil {
			return fmt.Errorf("read the list of VMs: %w", err)
		}
		for _, vm := range page.Items {
			if a, ours := r.byHost[vm.HostID]; ours {
				a.host.know(vm.VM)
			}
		}
		if q.After = page.Next; q.After == "" {
			return nil
		}
	}
}

// running counts the guests that run.
func (r *run) running() (n int) {
	r.mu.Lock()
	agents := r.agents
	r.mu.Unlock()
	for _, a := range agents {
		n += a.host.running()
	}
	return n
}

// takeAway removes what the run has made, as people would. end is when the hosts are needed no more.
func (r *run) takeAway(ctx context.Context, end func()) error {
	r.mu.Lock()
	m := r.made
	r.mu.Unlock()
	if r.o.Doomed {
		return nil
	}
	if r.o.Keep {
		r.say("All stays: the hosts %s-…, whose certificates end with this program, their VMs, pools, project and users", r.name)
		return nil
	}
	began := time.Now()
	var errs []error
	note := func(what string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s of %s stays: %w", what, r.name, err))
		}
	}
	note("a user", each(ctx, len(m.users), 1, func(ctx context.Context, i int) error { return gone(r.api.DeleteUser(ctx, m.users[i])) }))
	if m.vms {
		note("a VM", r.takeVMs(ctx, m))
	}
	for _, id := range m.pools {
		_, err := r.api.DeletePool(ctx, id)
		note("a pool", gone(err))
	}
	note("a pool", poll(ctx, "the end of the pools", r.settling(), func() (bool, error) {
		for _, id := range m.pools {
			if _, err := r.api.Pool(ctx, id); client.StatusOf(err) != http.StatusNotFound {
				return false, err
			}
		}
		return true, nil
	}))
	end()
	note("a host", each(ctx, len(m.hosts), joining, func(ctx context.Context, i int) error { return gone(r.api.DeleteHost(ctx, m.hosts[i])) }))
	if m.project != "" {
		note("the project", gone(r.api.DeleteProject(ctx, m.project)))
	}
	if len(m.hosts)+len(m.users) > 0 {
		r.say("All that was made is taken away, in %s", since(began))
	}
	return errors.Join(errs...)
}

// takeVMs deletes the VMs, and waits until their hosts have done so.
func (r *run) takeVMs(ctx context.Context, m made) error {
	if r.o.Database != "" {
		return r.unseed(ctx)
	}
	q := fleet.Query{Project: m.project, Limit: 500}
	for {
		page, err := r.api.VMs(ctx, q)
		if err != nil {
			return err
		}
		err = each(ctx, len(page.Items), asking, func(ctx context.Context, i int) error {
			_, err := r.api.DeleteVM(ctx, page.Items[i].ID, false, "")
			return gone(err)
		})
		if err != nil {
			return err
		}
		if q.After = page.Next; q.After == "" {
			break
		}
	}
	return poll(ctx, "the end of the VMs", r.settling(), func() (bool, error) {
		page, err := r.api.VMs(ctx, fleet.Query{Project: m.project, Limit: 1})
		return err == nil && len(page.Items) == 0, err
	})
}

// gone takes what is not there as done.
func gone(err error) error {
	if client.StatusOf(err) == http.StatusNotFound {
		return nil
	}
	return err
}

func since(t time.Time) time.Duration { return time.Since(t).Round(100 * time.Millisecond) }
