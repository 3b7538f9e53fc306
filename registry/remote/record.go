package remote

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/ref"
)

// A Record remembers what the repositories of registries held when they were last
// pushed to or pulled from, so that a push asks for a manifest, which lists
// thousands of blobs, and not for each blob. It is a cache: an entry that is wrong
// costs requests, because a registry that lacks a blob refuses the manifest, and
// Push then asks for each blob. A Record that cannot be read or written is an
// empty one. It is safe for concurrent use, by several processes too; of two that
// write one repository's file at a time, the entry of one is kept.
//
// The directory has one directory for each registry, with one file of JSON for
// each repository.
type Record struct {
	dir string

	mu           sync.Mutex
	repositories map[repositoryKey]*repositoryRecord
	sources      map[string]map[blobKey][]string    // by host: the repositories that have a blob
	useless      map[repositoryKey]int              // mounts from the repository that failed in a row
	mounts       map[string]mountSupport            // by host
	inflight     map[inflightKey]chan struct{}      // uploads of this process; closed at the end
	settled      map[repositoryKey]map[blobKey]bool // blobs that this process has seen in the repository
}

type (
	repositoryKey struct{ host, repository string }
	blobKey       [sha256.Size]byte
	inflightKey   struct {
		host string
		blob blobKey
	}
)

// repositoryRecord is the file of one repository.
type repositoryRecord struct {
	Repository string           `json:"repository"`
	Manifests  []manifestRecord `json:"manifests"` // the one seen last is the first
}

// manifestRecord is a manifest or index that a repository had, with everything
// that it lists: manifests, configs and layers.
type manifestRecord struct {
	Digest digest.Digest `json:"digest"`
	Blobs  []byte        `json:"blobs"` // the SHA-256 sums, one after the other
}

// mountSupport says whether a registry answers 201 to a request to mount a blob
// that is there.
type mountSupport int

const (
	mountUnknown mountSupport = iota
	mountWorks
	mountIgnored
)

const (
	recordedManifests = 6                  // of a repository
	recordedFile      = 64 << 20           // bytes of a file that are read at most
	recordLife        = 7 * 24 * time.Hour // of the facts about a registry, and of an upload's URL
	uselessSource     = 2                  // mounts that fail in a row before a repository is given up
)

// OpenRecord returns the Record in dir, which is made with the first entry. With
// "" the Record is kept in memory.
func OpenRecord(dir string) *Record {
	return &Record{
		dir:          dir,
		repositories: map[repositoryKey]*repositoryRecord{},
		sources:      map[string]map[blobKey][]string{},
		useless:      map[repositoryKey]int{},
		mounts:       map[string]mountSupport{},
		inflight:     map[inflightKey]chan struct{}{},
		settled:      map[repositoryKey]map[blobKey]bool{},
	}
}

func (t target) key() repositoryKey { return repositoryKey{t.host.name, t.repository} }

func keyOf(d digest.Digest) (k blobKey) {
	_, _ = hex.Decode(k[:], []byte(d.Encoded())) // every digest was checked by ParseManifest
	return k
}

func (m manifestRecord) each(do func(blobKey)) {
	for b := m.Blobs; len(b) >= sha256.Size; b = b[sha256.Size:] {
		do(blobKey(b[:sha256.Size]))
	}
}

// manifests returns the manifests that k had, the one seen last first.
func (r *Record) manifests(k repositoryKey) []manifestRecord {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.load(k).Manifests)
}

// load returns the record of k, from the file if it was not read yet.
func (r *Record) load(k repositoryKey) *repositoryRecord {
	v := r.repositories[k]
	if v == nil {
		v = &repositoryRecord{Repository: k.repository}
		var file repositoryRecord
		if r.read(r.file(k), &file) && file.Repository == k.repository {
			v = &file
			v.Manifests = slices.DeleteFunc(v.Manifests, func(m manifestRecord) bool { return !ref.IsSHA256(m.Digest) }) // it becomes part of a URL
		}
		r.repositories[k] = v
	}
	return v
}

// hold notes that k has the manifest top and all that blobs lists.
func (r *Record) hold(k repositoryKey, top digest.Digest, blobs []digest.Digest) {
	m := manifestRecord{Digest: top, Blobs: make([]byte, 0, len(blobs)*sha256.Size)}
	for _, d := range blobs {
		b := keyOf(d)
		m.Blobs = append(m.Blobs, b[:]...)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	v := r.load(k)
	if len(v.Manifests) > 0 && v.Manifests[0].Digest == top && len(v.Manifests[0].Blobs) >= len(m.Blobs) {
		return
	}
	v.Manifests = slices.DeleteFunc(v.Manifests, func(o manifestRecord) bool { return o.Digest == top })
	v.Manifests = slices.Insert(v.Manifests, 0, m)
	v.Manifests = v.Manifests[:min(len(v.Manifests), recordedManifests)]
	m.each(func(b blobKey) { r.addSource(k, b) })
	r.write(r.file(k), v)
}

// forget removes the manifest top of k, which the registry has no more.
func (r *Record) forget(k repositoryKey, top digest.Digest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := r.load(k)
	v.Manifests = slices.DeleteFunc(v.Manifests, func(o manifestRecord) bool { return o.Digest == top })
	r.write(r.file(k), v)
}

// source returns a repository of k's registry, not k itself, that had the blob;
// "" when none is known.
func (r *Record) source(k repositoryKey, d digest.Digest) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, repository := range r.hostSources(k.host)[keyOf(d)] {
		if repository != k.repository && r.useless[repositoryKey{k.host, repository}] < uselessSource {
			return repository
		}
	}
	return ""
}

// mounted notes the outcome of a request to mount from k.
func (r *Record) mounted(k repositoryKey, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ok {
		r.useless[k] = 0
	} else {
		r.useless[k]++
	}
}

// add notes, for this process, that k has the blob or manifest d.
func (r *Record) add(k repositoryKey, d digest.Digest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.settled[k] == nil {
		r.settled[k] = map[blobKey]bool{}
	}
	r.settled[k][keyOf(d)] = true
	r.hostSources(k.host)
	r.addSource(k, keyOf(d))
}

// holds reports whether this process has seen d in k.
func (r *Record) holds(k repositoryKey, d digest.Digest) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.settled[k][keyOf(d)]
}

// doubt forgets what this process has seen in k.
func (r *Record) doubt(k repositoryKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.settled, k)
}

// useful reports whether mounts from k may succeed.
func (r *Record) useful(k repositoryKey) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.useless[k] < uselessSource
}

// addSource is add; it does nothing while the sources of k's registry were not
// read.
func (r *Record) addSource(k repositoryKey, b blobKey) {
	if s := r.sources[k.host]; s != nil && !slices.Contains(s[b], k.repository) {
		s[b] = append(s[b], k.repository)
	}
}

// hostSources returns the repositories of host by blob, from the files of all its
// repositories.
func (r *Record) hostSources(host string) map[blobKey][]string {
	if s := r.sources[host]; s != nil {
		return s
	}
	s := map[blobKey][]string{}
	r.sources[host] = s
	if r.dir == "" {
		return s
	}
	entries, _ := os.ReadDir(r.hostDir(host)) // none: nothing is known
	for _, e := range entries {
		var file repositoryRecord
		if !strings.HasPrefix(e.Name(), "repository-") || !r.read(filepath.Join(r.hostDir(host), e.Name()), &file) {
			continue
		}
		k := repositoryKey{host, file.Repository}
		for _, m := range file.Manifests {
			m.each(func(b blobKey) { r.addSource(k, b) })
		}
	}
	return s
}

// claim claims the upload of d to host, for the caller to end with finish. While
// another push of this process uploads d there, claim returns a channel instead,
// which is closed at the end of that.
func (r *Record) claim(host string, d digest.Digest) (busy <-chan struct{}, finish func()) {
	k := inflightKey{host, keyOf(d)}
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.inflight[k]; c != nil {
		return c, nil
	}
	c := make(chan struct{})
	r.inflight[k] = c
	return nil, func() {
		r.mu.Lock()
		delete(r.inflight, k)
		r.mu.Unlock()
		close(c)
	}
}

// hostRecord is the file with the facts about a registry.
type hostRecord struct {
	MountsAt time.Time `json:"mountsAt"` // when the registry was seen to mount
}

// mountSupport returns the support of host as far as it is known. That a registry
// mounts is kept on disk. That it does not is asked in each run.
func (r *Record) mountSupport(host string) mountSupport {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s, ok := r.mounts[host]; ok {
		return s
	}
	var file hostRecord
	if r.read(filepath.Join(r.hostDir(host), "registry.json"), &file) && time.Since(file.MountsAt) < recordLife {
		r.mounts[host] = mountWorks
	}
	return r.mounts[host]
}

func (r *Record) setMountSupport(host string, s mountSupport) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mounts[host] = s
	if s == mountWorks {
		r.write(filepath.Join(r.hostDir(host), "registry.json"), hostRecord{MountsAt: time.Now()})
	}
}

// uploadRecord is the file of an upload that may be unfinished. The URL can be the
// right to write to the registry, so the file is its owner's alone.
type uploadRecord struct {
	Repository string        `json:"repository"`
	Digest     digest.Digest `json:"digest"`
	URL        string        `json:"url"`
	At         time.Time     `json:"at"`
}

func (r *Record) uploadFile(k repositoryKey, d digest.Digest) string {
	return filepath.Join(r.hostDir(k.host), "upload-"+digest.FromString(k.repository + "@" + d.String()).Encoded()[:32]+".json")
}

// pending returns the URL of an upload of d to k that an earlier run has begun,
// or "".
func (r *Record) pending(k repositoryKey, d ocispec.Descriptor) string {
	var file uploadRecord
	if d.Size < resumableBlob || !r.read(r.uploadFile(k, d.Digest), &file) ||
		file.Repository != k.repository || file.Digest != d.Digest || time.Since(file.At) > recordLife {
		return ""
	}
	return file.URL
}

// begun keeps the URL of an upload until it has ended.
func (r *Record) begun(k repositoryKey, d ocispec.Descriptor, url string) {
	if d.Size >= resumableBlob {
		r.write(r.uploadFile(k, d.Digest), uploadRecord{k.repository, d.Digest, url, time.Now()})
	}
}

// ended removes what begun has kept.
func (r *Record) ended(k repositoryKey, d ocispec.Descriptor) {
	if d.Size >= resumableBlob && r.dir != "" {
		_ = os.Remove(r.uploadFile(k, d.Digest)) // a stale one costs a request
	}
}

// hostDir returns the directory of host. A reference was parsed before its host
// comes here, so that the name has no slash and is not "..".
func (r *Record) hostDir(host string) string {
	return filepath.Join(r.dir, strings.ReplaceAll(host, ":", "+"))
}

func (r *Record) file(k repositoryKey) string {
	return filepath.Join(r.hostDir(k.host), "repository-"+digest.FromString(k.repository).Encoded()[:32]+".json")
}

// read decodes a file into v and reports whether it could.
func (r *Record) read(name string, v any) bool {
	if r.dir == "" {
		return false
	}
	info, err := os.Lstat(name)
	if err != nil || !info.Mode().IsRegular() || info.Size() > recordedFile {
		return false
	}
	b, err := os.ReadFile(name)
	return err == nil && json.Unmarshal(b, v) == nil
}

// write replaces a file. A failure leaves the old entry, which costs a later push
// some requests.
func (r *Record) write(name string, v any) {
	if r.dir == "" {
		return
	}
	b, err := json.Marshal(v)
	if err != nil || os.MkdirAll(filepath.Dir(name), 0o700) != nil {
		return
	}
	f, err := os.CreateTemp(filepath.Dir(name), "new-")
	if err != nil {
		return
	}
	_, err = f.Write(b)
	if closeErr := f.Close(); err != nil || closeErr != nil || os.Rename(f.Name(), name) != nil {
		_ = os.Remove(f.Name())
	}
}
