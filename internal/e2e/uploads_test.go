//go:build linux && ordeal

package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"quantix/internal/fleet"
	"quantix/internal/lab"
)

// uploadRig is a rig with a pool, and with a link for uploads that the test can cut.
type uploadRig struct {
	*faultRig
	pool fleet.PoolID
	dir  string // directory of the pool on the host
	link *uploadLink
}

// TestUploadsResumeAfterInterruptions uploads files to a real libvirt host over a link that breaks, and through a
// portal that is killed. The subtests share one portal, which one of them kills, so they are not parallel.
func TestUploadsResumeAfterInterruptions(t *testing.T) { //nolint:tparallel
	t.Parallel()
	r := newRigWithoutHost(t, uniqueName("receiver"), 22)
	r.joinHost()
	u := &uploadRig{faultRig: r, dir: "/var/lib/libvirt/images/" + uniqueName("uploads"), link: newUploadLink(t, strings.TrimPrefix(r.url, "http://"))}
	pool := requestJSON[fleet.PoolView](t, r.api(), http.StatusCreated, http.MethodPost, "/api/v1/pools", map[string]any{
		"name": "uploads", "hostIds": []string{string(r.api().hostByName(t, r.name).ID)}, "spec": map[string]any{"kind": "dir", "path": u.dir},
	})
	u.pool = pool.ID
	eventually(t, stepLimit, "the pool", func() (bool, string) {
		got, err := r.api().send(t.Context(), http.MethodGet, "/api/v1/pools/"+string(u.pool), nil)
		return err == nil && strings.Contains(string(got.body), `"state":"active"`), string(got.body)
	})
	t.Run("resumed after fifty cuts", u.checkResumeAfterFiftyCuts)
	t.Run("wrong checksum refused", u.checkWrongChecksumRefused)
	t.Run("other users refused", u.checkOtherUsersRefused)
	t.Run("browser resumes after cut and reload", u.checkBrowserUpload)
}

// uploadChunk is the body of a tus request: a part of the file.
type uploadChunk struct {
	offset int64
	data   io.Reader // nil: empty body
}

// sendTusRequest sends one request of the tus protocol over a connection of its own, without a chunk if chunk is nil.
// headers are name and value pairs.
func (a api) sendTusRequest(t *testing.T, method, path string, chunk *uploadChunk, headers ...string) (*http.Response, error) {
	t.Helper()
	var body io.Reader
	if chunk != nil {
		body = chunk.data
	}
	req, err := http.NewRequestWithContext(t.Context(), method, a.url+path, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+a.token)
	req.Header.Set("Tus-Resumable", "1.0.0")
	if chunk != nil {
		req.Header.Set("Upload-Offset", strconv.FormatInt(chunk.offset, 10))
		req.Header.Set("Content-Type", "application/offset+octet-stream")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 2 * time.Minute}
	res, err := client.Do(req)
	if err == nil {
		res.Body.Close()
	}
	return res, err
}

// beginUpload creates an upload and returns its path.
func (u *uploadRig) beginUpload(t *testing.T, name string, text []byte, checksum string) string {
	t.Helper()
	var meta []string
	for _, m := range [][2]string{{"name", name}, {"checksum", checksum}, {"host", string(u.api().hostByName(t, u.name).ID)}} {
		meta = append(meta, m[0]+" "+base64.StdEncoding.EncodeToString([]byte(m[1])))
	}
	res, err := u.api().sendTusRequest(t, http.MethodPost, "/api/v1/pools/"+string(u.pool)+"/uploads", nil,
		"Upload-Length", strconv.Itoa(len(text)), "Upload-Metadata", strings.Join(meta, ","))
	if err != nil || res.StatusCode != http.StatusCreated || res.Header.Get("Location") == "" {
		t.Fatalf("begin an upload: %v %v", res, err)
	}
	return res.Header.Get("Location")
}

// receivedBytes returns the number of bytes that the host has received.
func (u *uploadRig) receivedBytes(t *testing.T, at string) int64 {
	t.Helper()
	res, err := u.api().sendTusRequest(t, http.MethodHead, at, nil)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("read the offset: %v %v", res, err)
	}
	n, err := strconv.ParseInt(res.Header.Get("Upload-Offset"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// checksumOnHost returns the SHA-256 of a file in the pool.
func (u *uploadRig) checksumOnHost(t *testing.T, name string) string {
	t.Helper()
	out, err := u.host.Command(t.Context(), "sha256sum", filepath.Join(u.dir, name)).Output()
	if err != nil {
		t.Fatal(err)
	}
	sum, _, _ := strings.Cut(string(out), " ")
	return sum
}

func (u *uploadRig) listPoolFiles(t *testing.T) string {
	t.Helper()
	out, err := u.host.Command(t.Context(), "ls", u.dir).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func randomBytes(n int) []byte {
	text := make([]byte, n)
	source := rand.NewChaCha8([32]byte{1, 2, 3})
	_, _ = source.Read(text)
	text[0] = 0xeb // so that the bytes do not look like a compressed file
	return text
}

func (u *uploadRig) checkResumeAfterFiftyCuts(t *testing.T) {
	text := randomBytes(24 << 20)
	sum := sha256.Sum256(text)
	at := u.beginUpload(t, "cut.raw", text, hex.EncodeToString(sum[:]))
	throughLink := api{url: u.link.url, token: u.token}
	tries := 0
	for done := int64(0); done < int64(len(text)); tries++ {
		u.link.mu.Lock()
		u.link.maxPerConn = freeBytes + rand.Int64N(800<<10)
		if u.link.cuts >= 50 {
			u.link.maxPerConn = 0
		}
		u.link.mu.Unlock()
		_, _ = throughLink.sendTusRequest(t, http.MethodPatch, at, &uploadChunk{done, bytes.NewReader(text[done:])}) // the link usually cuts this request
		now := u.receivedBytes(t, at)
		if now < done {
			t.Fatalf("the host had %d bytes, and has %d now", done, now)
		}
		done = now
		if tries > 200 {
			t.Fatalf("after %d tries the host has %d of %d bytes", tries, done, len(text))
		}
	}
	u.link.mu.Lock()
	cuts := u.link.cuts
	u.link.maxPerConn = 0
	u.link.mu.Unlock()
	if cuts < 50 {
		t.Errorf("the link was cut only %d times", cuts)
	}
	eventually(t, stepLimit, "the upload's end", func() (bool, string) {
		got, err := u.api().send(t.Context(), http.MethodGet, at, nil)
		return err == nil && strings.Contains(string(got.body), `"state":"done"`), string(got.body)
	})
	if got := u.checksumOnHost(t, "cut.raw"); got != hex.EncodeToString(sum[:]) {
		t.Errorf("the file on the host has the checksum %s", got)
	}
}

func (u *uploadRig) checkWrongChecksumRefused(t *testing.T) {
	text := randomBytes(1 << 20)
	at := u.beginUpload(t, "wrong.raw", text, strings.Repeat("0", 64))
	res, err := u.api().sendTusRequest(t, http.MethodPatch, at, &uploadChunk{0, bytes.NewReader(text)})
	if err != nil || res.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(res.Header.Get("X-Quantix-Message"), "was%20deleted") {
		t.Errorf("the last chunk of a file with a wrong checksum is answered by %v %v", res, err)
	}
	if files := u.listPoolFiles(t); strings.Contains(files, "wrong.raw") {
		t.Errorf("the refused upload left %s", files)
	}
}

func (u *uploadRig) checkOtherUsersRefused(t *testing.T) {
	text := randomBytes(1 << 20)
	at := u.beginUpload(t, "mine.raw", text, "")
	for name, role := range map[string]string{"other": "operator", "looker": "viewer"} {
		other := api{url: u.url, token: u.createUserToken(t, uniqueName(name), role)}
		for _, method := range []string{http.MethodHead, http.MethodPatch, http.MethodDelete} {
			chunk := &uploadChunk{}
			if method == http.MethodPatch {
				chunk.data = bytes.NewReader(text)
			}
			res, err := other.sendTusRequest(t, method, at, chunk)
			if err != nil || res.StatusCode != http.StatusNotFound && res.StatusCode != http.StatusForbidden {
				t.Errorf("%s of another user's upload by a %s: %v %v", method, role, res, err)
			}
		}
	}
	if got := u.receivedBytes(t, at); got != 0 {
		t.Errorf("another user has sent %d bytes", got)
	}
	if res, err := u.api().sendTusRequest(t, http.MethodDelete, at, nil); err != nil || res.StatusCode != http.StatusNoContent {
		t.Errorf("cancel: %v %v", res, err)
	}
	eventually(t, stepLimit, "the removal of the partial file", func() (bool, string) {
		files := u.listPoolFiles(t)
		return !strings.Contains(files, "mine.raw"), files
	})
}

// createUserToken creates a user with an API token, and returns the token.
func (u *uploadRig) createUserToken(t *testing.T, name, role string) string {
	t.Helper()
	user := requestJSON[struct {
		Password string `json:"oneTimePassword"`
	}](t, u.api(), http.StatusCreated, http.MethodPost, "/api/v1/users", map[string]any{"name": name, "role": role})
	other := *u.portal
	other.t, other.token, other.password, other.browser = t, "", user.Password, nil
	other.as = name
	return other.api().token
}

// checkBrowserUpload uploads a guest image from a page, over a link that is cut and through a portal that is killed.
// Then it boots a VM from the image.
func (u *uploadRig) checkBrowserUpload(t *testing.T) {
	guest, err := lab.GuestImage(t.Context(), lab.CacheDir())
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(guest.Disk)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(guest.Disk)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(text)
	part := info.Size() / 5
	u.api()
	p := newTab(t, u.link.url)
	p.allowFaults("ERR_", "502", "503", "400", "404", "409", "Failed to load resource", "htmx:", "events")
	p.open("/sign-in")
	p.enterCredentials("admin", u.password)
	p.waitPath("/")
	u.link.allowBytes(part)
	p.open("/pools/" + string(u.pool) + "?tab=volumes")
	p.click("#pool-body a", "Upload")
	p.waitText("#dialog", "Upload into uploads")
	p.chooseFile("#dialog #upload-file", guest.Disk)
	p.waitTrue("the name to be filled in", `document.querySelector("#dialog #name").value.endsWith(".qcow2")`)
	p.fillInput("#dialog #name", "sent.qcow2")
	p.fillInput("#dialog #checksum", hex.EncodeToString(sum[:]))
	p.chooseOption("#dialog #host", u.name)
	p.click("#dialog button.primary", "Upload")
	p.waitText(".uploads", "sent.qcow2")
	u.waitSent(t, part-freeBytes)

	// After a cut of the link, the upload must resume.
	u.link.allowBytes(part)
	u.link.cut()
	u.waitSent(t, 2*part-freeBytes)
	p.waitText(".uploads", "Pause")
	p.capture("upload")

	// After the portal was killed and restarted, the upload must resume on the same page.
	u.kill()
	u.start(u.portal.name)
	u.link.allowBytes(part)
	u.waitSent(t, 3*part-2*freeBytes)

	// After a pause and a reload of the page, the user must choose the same file again.
	p.click(".uploads button", "Pause")
	p.waitText(".uploads", "Paused.")
	p.open("/pools/" + string(u.pool) + "?tab=volumes")
	p.waitText(".uploads [data-name='sent.qcow2']", "Choose the same file again to continue")
	u.link.allowBytes(-1)
	p.chooseFile(".uploads [data-name='sent.qcow2'] [data-upload-again] input", guest.Disk)
	p.waitText(".toast", "sent.qcow2 is uploaded.")
	p.waitText("#pool-body table", "sent.qcow2")
	if got := u.checksumOnHost(t, "sent.qcow2"); got != hex.EncodeToString(sum[:]) {
		t.Errorf("the file on the host has the checksum %s", got)
	}

	a := u.api()
	project := requestJSON[fleet.Project](t, a, http.StatusCreated, http.MethodPost, "/api/v1/projects", map[string]any{"name": uniqueName("sent")})
	disk := map[string]any{"poolId": u.pool, "image": map[string]any{"poolId": u.pool, "volume": "sent.qcow2"}}
	vm := requestJSON[fleet.VMView](t, a, http.StatusCreated, http.MethodPost, "/api/v1/vms", map[string]any{
		"name": uniqueName("sent"), "projectId": project.ID, "start": true, "spec": map[string]any{"cpus": 1, "memoryMiB": 256, "disks": []any{disk}},
	})
	a.waitPhase(t, guestLimit, vm.ID, fleet.PhaseRunning)
}

// waitSent waits until n bytes have passed through the link.
func (u *uploadRig) waitSent(t *testing.T, n int64) {
	t.Helper()
	eventually(t, stepLimit, fmt.Sprintf("%d bytes to be sent", n), func() (bool, string) {
		u.link.mu.Lock()
		defer u.link.mu.Unlock()
		return u.link.passed >= n, strconv.FormatInt(u.link.passed, 10)
	})
}

func (p *tab) chooseFile(sel, path string) {
	p.Helper()
	p.waitTrue(sel, fmt.Sprintf(`document.querySelector(%s) !== null`, jsString(sel)))
	p.runActions("choose a file", chromedp.SetUploadFiles(sel, []string{path}))
}
