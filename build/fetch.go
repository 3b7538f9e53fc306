package build

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/clusterimage/sealer/kubefile"
)

const (
	maxDownload  = 4 << 30         // bytes of one URL, when Options do not say
	maxDuration  = time.Hour       // of one URL or git repository, when Options do not say
	maxSilence   = time.Minute     // without a byte
	maxRedirects = 10              // of one URL
	headerWait   = 2 * time.Minute // for a server to begin its answer
)

// isGit reports whether a source of COPY is a git repository.
func isGit(src string) bool {
	repo, _, _ := strings.Cut(src, "#")
	return strings.HasPrefix(src, "git@") || strings.HasPrefix(src, "git://") || strings.HasPrefix(src, "ssh://") ||
		kubefile.IsURL(src) && strings.HasSuffix(repo, ".git")
}

// A fetched source is one that several instructions and platforms share.
type fetched struct {
	input input
	sum   digest.Digest // of a URL's file; "" of a repository
}

// check compares the file with the checksum that one instruction asks for.
// Instructions with the same URL may ask for different checksums, so each of
// them checks for itself.
func (f fetched) check(in *kubefile.Copy) error {
	if f.sum != "" && in.Checksum != "" && f.sum.String() != in.Checksum {
		return fmt.Errorf("its checksum is %s, not %s", f.sum, in.Checksum)
	}
	return nil
}

// fetch brings a URL or a git repository into a temporary directory. Platforms
// and instructions that want the same source share the directory.
func (b *builder) fetch(ctx context.Context, src string, in *kubefile.Copy) ([]input, error) {
	if kubefile.IsChart(src) {
		return b.fetchChart(ctx, src, in)
	}
	if b.checking || b.failing {
		return nil, nil
	}
	if b.o.Offline {
		return nil, errors.New("it needs the network, and the build is offline")
	}
	done, ok := b.fetched[src]
	if !ok {
		var err error
		if done, err = b.fetchOnce(ctx, src); err != nil {
			return nil, err
		}
		b.fetched[src] = done
	}
	if err := done.check(in); err != nil {
		return nil, err
	}
	return []input{done.input}, nil
}

// fetchOnce fetches a source into a directory of its own.
func (b *builder) fetchOnce(ctx context.Context, src string) (fetched, error) {
	temp, err := b.tempDir(ctx)
	if err != nil {
		return fetched{}, err
	}
	// The directory of an attempt that failed stays until the build ends.
	dir, err := os.MkdirTemp(temp, "fetch-")
	if err != nil {
		return fetched{}, err
	}
	most := cmp.Or(b.o.DownloadTime, maxDuration)
	ctx, cancel := context.WithTimeoutCause(ctx, most, fmt.Errorf("it took longer than %s", most))
	defer cancel()
	get := b.download
	if isGit(src) {
		get = b.clone
	}
	name, sum, err := get(ctx, src, dir)
	if err != nil {
		return fetched{}, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fetched{}, err
	}
	b.closers = append(b.closers, root.Close)
	fi, err := root.Stat(name)
	if err != nil {
		return fetched{}, plainMissing(plain(err))
	}
	out := input{Source: kubefile.Source{Path: src, Dir: fi.IsDir(), Alone: true}, root: root, path: name, info: fi, remote: true}
	if !isGit(src) {
		out.Name = name // a repository has no name of its own: its contents are copied
	}
	return fetched{input: out, sum: sum}, nil
}

// tempDir returns the build's temporary directory, which goes away with it.
func (b *builder) tempDir(ctx context.Context) (string, error) {
	if b.temp != "" {
		return b.temp, nil
	}
	dir, remove, err := b.s.TempDir(ctx)
	if err != nil {
		return "", err
	}
	b.temp = dir
	b.closers = append(b.closers, remove)
	return dir, nil
}

// download fetches a URL into dir and returns the file's name and
// checksum.
func (b *builder) download(ctx context.Context, src, dir string) (string, digest.Digest, error) {
	u, err := url.Parse(src)
	if err != nil {
		return "", "", errors.New("it is no URL")
	}
	name := path.Base(path.Clean("/" + u.Path))
	if name == "/" || name == "." {
		return "", "", errors.New("the URL names no file")
	}
	b.step("fetch " + u.Redacted())
	body, err := Get(ctx, u, b.o.Version)
	if err != nil {
		return "", "", err
	}
	defer body.Close()
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o644)
	if err != nil {
		return "", "", err
	}
	h := sha256.New()
	limit := b.o.MaxDownload
	if limit <= 0 {
		limit = maxDownload
	}
	n, err := io.Copy(io.MultiWriter(f, h), io.LimitReader(body, limit+1))
	err = errors.Join(err, f.Close())
	switch {
	case err != nil:
		return "", "", err
	case n > limit:
		return "", "", fmt.Errorf("it is larger than %d MiB", limit>>20)
	}
	return name, digest.NewDigest(digest.SHA256, h), nil
}

// Get asks for a URL under COPY's rules: no redirect leaves https, and a
// transfer that stands still ends. The caller limits the body's size and closes
// it. Errors name neither the URL nor its credentials. version is sealer's.
func Get(ctx context.Context, u *url.URL, version string) (io.ReadCloser, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ResponseHeaderTimeout = headerWait
	client := &http.Client{Transport: transport, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if len(via) >= maxRedirects {
			return fmt.Errorf("more than %d redirects", maxRedirects)
		}
		if via[0].URL.Scheme == "https" && r.URL.Scheme != "https" {
			return errors.New("it redirects from https to " + r.URL.Scheme)
		}
		return nil
	}}
	ctx, cancel := context.WithCancelCause(ctx)
	d := &download{transport: transport, cancel: cancel, ended: func() error { return context.Cause(ctx) }}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, errors.Join(errors.New("it is no URL"), d.Close())
	}
	req.Header.Set("User-Agent", "sealer/"+version)
	resp, err := client.Do(req)
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err // without the URL, which the caller names
	}
	if err != nil {
		return nil, errors.Join(d.cause(err), d.Close())
	}
	if d.body = resp.Body; resp.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("the server answers %s", resp.Status), d.Close())
	}
	return d, nil
}

// A download is the body of an answer; it ends when nothing comes for a while.
type download struct {
	transport *http.Transport
	cancel    context.CancelCauseFunc
	ended     func() error  // why the request was ended, or nil
	body      io.ReadCloser // nil before the answer
}

// Read implements io.Reader.
func (d *download) Read(p []byte) (int, error) {
	timer := time.AfterFunc(maxSilence, func() { d.cancel(fmt.Errorf("nothing came for %s", maxSilence)) })
	defer timer.Stop()
	n, err := d.body.Read(p)
	return n, d.cause(err)
}

// cause returns why the request was ended where err comes from that.
func (d *download) cause(err error) error {
	if cause := d.ended(); cause != nil && err != nil && err != io.EOF {
		return cause
	}
	return err
}

// Close implements io.Closer.
func (d *download) Close() (err error) {
	if d.body != nil {
		err = d.body.Close()
	}
	d.cancel(nil)
	d.transport.CloseIdleConnections()
	return err
}

// clone fetches REPOSITORY[#[ref][:subdir]] into dir and returns the
// subdirectory. A repository has no checksum.
func (b *builder) clone(ctx context.Context, src, dir string) (string, digest.Digest, error) {
	repo, fragment, _ := strings.Cut(src, "#")
	ref, sub, _ := strings.Cut(fragment, ":")
	if ref == "" {
		ref = "HEAD"
	}
	if strings.HasPrefix(ref, "-") || strings.HasPrefix(repo, "-") {
		return "", "", errors.New("a git reference does not begin with -")
	}
	sub, err := clean(cmp.Or(sub, "."))
	if err != nil {
		return "", "", errors.New("the subdirectory leads out of the repository")
	}
	b.step("fetch " + redacted(repo))
	if err := git(ctx, dir, "init", "--quiet", "."); err != nil {
		return "", "", err
	}
	fetch := []string{"fetch", "--quiet", "--no-tags", "--depth=1", "--", repo, ref}
	err = git(ctx, dir, fetch...)
	if err != nil && ctx.Err() == nil {
		// Some servers give neither part of a history nor a commit by its
		// hash.
		err = git(ctx, dir, "fetch", "--quiet", "--", repo, "+refs/*:refs/remotes/origin/*")
		if err == nil && ref == "HEAD" {
			err = git(ctx, dir, "fetch", "--quiet", "--", repo, ref)
			ref = "FETCH_HEAD"
		}
		if err == nil && git(ctx, dir, "checkout", "--quiet", "--detach", ref) != nil {
			err = firstOf(ctx, dir, ref)
		}
	} else if err == nil {
		err = git(ctx, dir, "checkout", "--quiet", "--detach", "FETCH_HEAD")
	}
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return "", "", cause
		}
		return "", "", err
	}
	return sub, "", os.RemoveAll(filepath.Join(dir, ".git"))
}

// firstOf checks out a branch or a tag by its bare name.
func firstOf(ctx context.Context, dir, ref string) (err error) {
	for _, kind := range []string{"heads/", "tags/"} {
		if err = git(ctx, dir, "checkout", "--quiet", "--detach", "refs/remotes/origin/"+kind+ref); err == nil {
			return nil
		}
	}
	return err
}

// git runs the git program. It asks nobody for input and runs no program of the
// repository.
func git(ctx context.Context, dir string, args ...string) error {
	args = append([]string{
		"-c", "core.hooksPath=/dev/null", "-c", "core.autocrlf=false", "-c", "protocol.ext.allow=never", "-c", "protocol.file.allow=never",
		"-c", "init.defaultBranch=main", "-c", "advice.detachedHead=false",
	}, args...)
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=true", "GIT_DIR="+filepath.Join(dir, ".git"), "GIT_LFS_SKIP_SMUDGE=1",
		"GIT_SSH_COMMAND="+cmp.Or(os.Getenv("GIT_SSH_COMMAND"), "ssh -o BatchMode=yes"))
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		return errors.New("the program git is needed, and not installed")
	}
	if err != nil {
		return fmt.Errorf("git: %s", redacted(gitFault(string(out))))
	}
	return nil
}

// gitFault returns the fault in git's output, with the cause that a program
// below it, such as ssh, printed before. Remarks and advice for a terminal are
// left out.
func gitFault(out string) string {
	var said []string
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(strings.ToLower(line), "warning:") {
			continue
		}
		said = append(said, line)
		if strings.HasPrefix(line, "fatal:") || strings.HasPrefix(line, "error:") {
			break
		}
	}
	return strings.Join(said[max(0, len(said)-2):], ": ")
}

// redacted hides the password of every URL in s.
func redacted(s string) string {
	words := strings.Fields(s)
	for i, w := range words {
		core := strings.Trim(w, `'":`)
		if u, err := url.Parse(core); err == nil && u.User != nil {
			words[i] = strings.Replace(w, core, u.Redacted(), 1)
		}
	}
	return strings.Join(words, " ")
}
