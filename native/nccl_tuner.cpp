// NCCL's tuner plugin: before each collective NCCL asks by which algorithm and protocol, over how many
// channels. In a measuring run the answer is what busbw set for the next calls (busbw_tuner_choose); in any
// other job it is the first row of the table BUSBW_TUNER_FILE that fits. Where busbw has no answer, the
// site's tuner is asked (nccl_site_tuner.hpp); without one NCCL's own choice stays.
//
// NCCL opens this very library by its path and finds the structures at the end of this file (2.21 knows
// v2, 2.30 v6). It asks in the thread that enqueues, so the answers to calls of one thread are in the order
// of the calls.
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "core_api.h"
#include "nccl_site_tuner.hpp"

namespace {

using busbw::NcclLogger;
using busbw::TunerQuestion;

constexpr int32_t kInvalidUsage = 5;  // ncclInvalidUsage
constexpr float kImpossible = -1.0f;  // in NCCL's table of costs
constexpr int kAny = -1;

// NCCL's numbers of functions, algorithms and protocols (nccl_tuner.h), in the spelling of NVIDIA's tables.
constexpr const char* kFunctions[] = {"broadcast", "reduce", "allgather", "reducescatter", "allreduce"};
constexpr const char* kAlgorithms[] = {"tree",      "ring", "collnet_direct", "collnet_chain", "nvls",
                                       "nvls_tree", "pat"};
constexpr const char* kProtocols[] = {"ll", "ll128", "simple"};
static_assert(sizeof kAlgorithms / sizeof *kAlgorithms == kTunerAlgorithms, "core_api.h");
static_assert(sizeof kProtocols / sizeof *kProtocols == kTunerProtocols, "core_api.h");

struct Row {
  int function, algorithm, protocol, channels, nodes, ranks, pipe_ops, registered;
  uint64_t least_bytes, most_bytes, chunk_bytes;  // no chunk: 0
};

using Table = std::vector<Row>;

// ---- the table --------------------------------------------------------------------------------------------

struct Complaint {
  char* text;
  size_t room;
  bool of(const char* path, int line, const char* what, const char* word) {
    if (line > 0)
      std::snprintf(text, room, "%s, line %d: %s '%s'", path, line, what, word);
    else
      std::snprintf(text, room, "%s: %s", path, what);
    return false;
  }
};

template <size_t N>
bool read_word(const char* word, const char* const (&words)[N], int* value) {
  for (size_t i = 0; i < N; i++)
    if (std::strcmp(word, words[i]) == 0) {
      *value = static_cast<int>(i);
      return true;
    }
  return false;
}

bool read_number(const char* word, uint64_t most, uint64_t* value) {
  if (*word < '0' || *word > '9') return false;
  char* end = nullptr;
  errno = 0;
  *value = std::strtoull(word, &end, 10);
  return errno == 0 && *end == '\0' && *value <= most;
}

// A number or -1, which stands for any.
bool read_filter(const char* word, uint64_t most, int* value) {
  uint64_t number = 0;
  if (std::strcmp(word, "-1") == 0) {
    *value = kAny;
    return true;
  }
  if (!read_number(word, most, &number)) return false;
  *value = static_cast<int>(number);
  return true;
}

constexpr int kMostFields = 11, kFewestFields = 6, kChunkField = 10;

// The fields of a line, blanks around them left out; the line is changed. More than fit: one too many.
int split(char* line, char* (&fields)[kMostFields]) {
  int count = 0;
  for (char* at = line; at != nullptr; count++) {
    char* comma = std::strchr(at, ',');
    if (comma != nullptr) *comma = '\0';
    while (*at == ' ' || *at == '\t') at++;
    for (size_t size = std::strlen(at); size > 0 && std::strchr(" \t\r", at[size - 1]) != nullptr; size--)
      at[size - 1] = '\0';
    if (count == kMostFields) return count + 1;
    fields[count] = at;
    at = comma != nullptr ? comma + 1 : nullptr;
  }
  return count;
}

// collective, least bytes, most bytes, algorithm, protocol, channels, and as filters nodes, ranks, operations
// in the group, registered buffers: the columns of NVIDIA's own tuner example since NCCL 2.27.5. Ours may
// have one more, the bytes of a chunk, for NCCL 2.30.
bool read_row(char* line, const char* path, int number, Row* row, Complaint* complaint) {
  char* fields[kMostFields] = {};
  const int count = split(line, fields);
  if (count < kFewestFields || count > kMostFields)
    return complaint->of(path, number, "6 to 11 columns are wanted, this has",
                         count > kMostFields ? "more" : "fewer");
  *row = {0, 0, 0, 0, kAny, kAny, kAny, kAny, 0, 0, 0};
  const auto wrong = [&](int field, const char* what) {
    return complaint->of(path, number, what, fields[field]);
  };
  if (!read_word(fields[0], kFunctions, &row->function)) return wrong(0, "no such collective:");
  if (!read_number(fields[1], UINT64_MAX, &row->least_bytes)) return wrong(1, "not a number of bytes:");
  if (!read_number(fields[2], UINT64_MAX, &row->most_bytes)) return wrong(2, "not a number of bytes:");
  if (row->most_bytes < row->least_bytes) return wrong(2, "the range ends before it begins:");
  if (!read_word(fields[3], kAlgorithms, &row->algorithm)) return wrong(3, "no such algorithm:");
  if (!read_word(fields[4], kProtocols, &row->protocol)) return wrong(4, "no such protocol:");
  if (!read_filter(fields[5], 64, &row->channels) || row->channels == 0)
    return wrong(5, "channels are -1 or 1 to 64, not");
  int* const filters[] = {&row->nodes, &row->ranks, &row->pipe_ops, &row->registered};
  if (count > kChunkField && !read_number(fields[kChunkField], UINT32_MAX, &row->chunk_bytes))
    return wrong(kChunkField, "not a number of bytes:");
  for (int field = kFewestFields; field < count && field < kChunkField; field++)
    if (!read_filter(fields[field], INT32_MAX, filters[field - kFewestFields]))
      return wrong(field, "a number or -1 is wanted, not");
  return true;
}

// The rows of a text of so many bytes, which is changed; a line that begins with # is a comment.
bool read_rows(std::vector<char>* text, const char* path, Table* table, Complaint* complaint) {
  if (std::memchr(text->data(), '\0', text->size()) != nullptr)
    return complaint->of(path, 0, "it is not a text", "");
  text->push_back('\0');
  int number = 0;
  for (char *line = text->data(), *next = nullptr; line != nullptr; line = next) {
    number++;
    next = std::strchr(line, '\n');
    if (next != nullptr) *next++ = '\0';
    if (*line == '#' || line[std::strspn(line, " \t\r")] == '\0') continue;
    Row row;
    if (!read_row(line, path, number, &row, complaint)) return false;
    table->push_back(row);
  }
  if (table->empty()) return complaint->of(path, 0, "it has no row", "");
  return true;
}

constexpr size_t kMostBytes = 1 << 20;  // of a table

bool read_table(const char* path, Table* table, uint64_t* hash, Complaint* complaint) {
  std::FILE* file = std::fopen(path, "rb");
  if (file == nullptr) return complaint->of(path, 0, std::strerror(errno), "");
  std::vector<char> text(kMostBytes + 1);
  const size_t size = std::fread(text.data(), 1, text.size(), file);
  const bool failed = std::ferror(file) != 0;
  std::fclose(file);
  if (failed) return complaint->of(path, 0, "it cannot be read", "");
  if (size > kMostBytes) return complaint->of(path, 0, "it is larger than 1 MiB", "");
  text.resize(size);
  *hash = 14695981039346656037u;  // FNV-1a, 64 bits
  for (char byte : text) *hash = (*hash ^ static_cast<unsigned char>(byte)) * 1099511628211u;
  return read_rows(&text, path, table, complaint);
}

// ---- the state of the process -----------------------------------------------------------------------------

// Never waited for longer than one table of costs is copied; the file is read under it too, once.
std::atomic_flag lock = ATOMIC_FLAG_INIT;
struct Locked {
  Locked() {
    while (lock.test_and_set(std::memory_order_acquire)) {
    }
  }
  ~Locked() { lock.clear(std::memory_order_release); }
};

struct {
  bool is_read;
  bool is_wrong;
  Table& table = *new Table();  // of the file, empty where there is none; kept while the process ends
  int32_t communicators;
  int32_t version;
  BusbwTunerChoice next = {kAny, kAny, 0, 0};  // set by busbw
  BusbwTunerCall last;
} state;

struct Communicator {
  int64_t ranks, nodes;
  busbw::SiteTuner site;
};

constexpr int32_t kInfo = 3;
constexpr unsigned long kTuning = 0x40;

// Everybody who runs the job should see a table that is not used, whatever NCCL_DEBUG says.
void say(const char* text, const char* what_then) {
  std::fprintf(stderr, "busbw tuner: %s; %s\n", text, what_then);
}

bool is_set(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

// The file of the environment, read for the first communicator and kept while there is one. Under the lock.
// False: NCCL is to stop, since ranks that read other tables would wait for each other for ever.
bool prepare_table(NcclLogger logger) {
  if (state.is_read) return !state.is_wrong;
  state.is_read = true;
  const char* path = std::getenv("BUSBW_TUNER_FILE");
  if (path == nullptr || *path == '\0') return true;
  char text[512];
  Complaint complaint = {text, sizeof text};
  uint64_t hash = 0;
  if (read_table(path, &state.table, &hash, &complaint)) {
    if (is_set("NCCL_ALGO") || is_set("NCCL_PROTO"))
      say("NCCL_ALGO or NCCL_PROTO is set", "NCCL follows it and not the table");
    if (logger != nullptr)
      logger(kInfo, kTuning, __FILE__, __LINE__, "busbw tuner: %s, %zu rows, hash %016llx", path,
             state.table.size(), static_cast<unsigned long long>(hash));
    return true;
  }
  state.table.clear();
  const char* ignore = std::getenv("BUSBW_TUNER_IGNORE_ERRORS");
  state.is_wrong = ignore == nullptr || std::strcmp(ignore, "1") != 0;
  say(text, state.is_wrong
                ? "communicators are refused (BUSBW_TUNER_IGNORE_ERRORS=1 on every rank goes on without it)"
                : "NCCL's own choices are used");
  return !state.is_wrong;
}

// ---- what NCCL calls --------------------------------------------------------------------------------------

int32_t begin(const busbw::TunerStart& start, void** context) {
  {
    Locked locked;
    if (!prepare_table(start.logger)) return kInvalidUsage;
    state.communicators++;
    state.version = start.version;
  }
  auto* communicator =
      new Communicator{static_cast<int64_t>(start.ranks), static_cast<int64_t>(start.nodes), {}};
  *context = communicator;
  return busbw::begin_site_tuner(start, &communicator->site);
}

int32_t finalize(void* context) {
  if (context == nullptr) return kOk;
  auto* communicator = static_cast<Communicator*>(context);
  const int32_t status = busbw::finalize_site_tuner(communicator->site);
  delete communicator;
  Locked locked;
  if (--state.communicators == 0) {
    state.table.clear();
    state.is_read = false;
    state.version = 0;
  }
  return status;
}

bool fits(int wanted, int64_t is) { return wanted == kAny || wanted == is; }

bool covers(const Row& row, int function, uint64_t bytes, const Communicator& communicator) {
  return row.function == function && row.least_bytes <= bytes && bytes <= row.most_bytes &&
         fits(row.nodes, communicator.nodes) && fits(row.ranks, communicator.ranks);
}

void remember(const TunerQuestion& question) {
  BusbwTunerCall& last = state.last;
  last.calls++;
  for (int a = 0; a < kTunerAlgorithms; a++)
    for (int p = 0; p < kTunerProtocols; p++) {
      const float* cost = question.cost(a, p);
      last.costs[a][p] = cost != nullptr ? *cost : kImpossible;
    }
}

bool take(const TunerQuestion& question, int algorithm, int protocol, int channels) {
  float* cost = question.cost(algorithm, protocol);
  if (cost == nullptr) return false;
  *cost = 0.0f;
  if (channels > 0) *question.channels = channels;
  return true;
}

// Whether the answer is what busbw set or a row has. What busbw set and NCCL cannot do is left to NCCL.
bool answer(const Communicator& communicator, const TunerQuestion& question) {
  Locked locked;
  remember(question);
  const BusbwTunerChoice& next = state.next;
  if (next.algorithm != kAny) {
    take(question, next.algorithm, next.protocol, next.channels);
    return true;
  }
  for (const Row& row : state.table)
    if (covers(row, question.function, question.bytes, communicator) &&
        fits(row.pipe_ops, question.pipe_ops) && fits(row.registered, question.registered) &&
        take(question, row.algorithm, row.protocol, row.channels))
      return true;
  return false;
}

int32_t choose(void* context, int function, size_t bytes, int pipe_ops, float** table, int algorithms,
               int protocols, int registered, int* channels) {
  if (context == nullptr) return kOk;
  const auto& communicator = *static_cast<const Communicator*>(context);
  const TunerQuestion question = {function,   bytes,     pipe_ops,   reinterpret_cast<float*>(table),
                                  algorithms, protocols, registered, channels};
  return answer(communicator, question) ? kOk : busbw::ask_site_tuner(communicator.site, question);
}

// The size of a chunk goes with the choice that NCCL follows, whichever call of a group it is asked for.
int32_t choose_chunk(void* context, int function, size_t bytes, int algorithm, int protocol, int channels,
                     size_t* chunk) {
  if (context == nullptr) return kOk;
  const auto& communicator = *static_cast<const Communicator*>(context);
  {
    Locked locked;
    const BusbwTunerChoice& next = state.next;
    if (next.algorithm == algorithm && next.protocol == protocol && next.chunk_bytes > 0)
      *chunk = static_cast<size_t>(next.chunk_bytes);
    if (next.algorithm != kAny) return kOk;
    for (const Row& row : state.table)
      if (covers(row, function, bytes, communicator) && row.algorithm == algorithm &&
          row.protocol == protocol) {
        if (row.chunk_bytes > 0) *chunk = row.chunk_bytes;
        return kOk;
      }
  }
  return busbw::ask_site_chunk(communicator.site, function, bytes, algorithm, protocol, channels, chunk);
}

template <int32_t version>
int32_t init_by_size(size_t ranks, size_t nodes, NcclLogger logger, void** context) {
  return begin({version, ranks, nodes, logger, 0, nullptr, nullptr}, context);
}
template <int32_t version>
int32_t init_by_id(void** context, uint64_t id, size_t ranks, size_t nodes, NcclLogger logger, void* domain,
                   void* constants) {
  return begin({version, ranks, nodes, logger, id, domain, constants}, context);
}

bool is_there(const char* algorithm, int collnet, int nvls) {
  if (std::strncmp(algorithm, "collnet", 7) == 0) return collnet != 0;
  return std::strncmp(algorithm, "nvls", 4) != 0 || nvls != 0;
}

// Before v3 there is no table of costs, but whether there are CollNet and NVLS.
int32_t choose_v2(void* context, int function, size_t bytes, int collnet, int nvls, int pipe_ops,
                  int* algorithm, int* protocol, int* channels) {
  float costs[kTunerAlgorithms][kTunerProtocols] = {};
  for (int a = 0; a < kTunerAlgorithms; a++)
    for (float& cost : costs[a]) cost = is_there(kAlgorithms[a], collnet, nvls) ? 1.0f : kImpossible;
  const int32_t status = choose(context, function, bytes, pipe_ops, reinterpret_cast<float**>(costs),
                                kTunerAlgorithms, kTunerProtocols, kAny, channels);
  for (int a = 0; a < kTunerAlgorithms; a++)
    for (int p = 0; p < kTunerProtocols; p++)
      if (costs[a][p] == 0.0f) *algorithm = a, *protocol = p;
  return status;
}

int32_t choose_v3(void* context, int function, size_t bytes, int pipe_ops, float** table, int algorithms,
                  int protocols, int* channels) {
  return choose(context, function, bytes, pipe_ops, table, algorithms, protocols, kAny, channels);
}

}  // namespace

// ---- what busbw calls -------------------------------------------------------------------------------------

int32_t busbw_tuner_version() {
  Locked locked;
  return state.version;
}

void busbw_tuner_choose(BusbwTunerChoice choice) {
  Locked locked;
  state.next = choice;
}

void busbw_tuner_last(BusbwTunerCall* call) {
  Locked locked;
  *call = state.last;
}

int32_t busbw_tuner_read(const char* path, char* complaint, uint64_t room) {
  Table table;
  uint64_t hash = 0;
  Complaint wrong = {complaint, static_cast<size_t>(room)};
  return read_table(path, &table, &hash, &wrong) ? static_cast<int32_t>(table.size()) : -1;
}

// ---- what NCCL looks up, the newest that it knows first ---------------------------------------------------

template <typename Init, typename Choose>
struct TunerTable {
  const char* name;
  Init init;
  Choose choose;
  int32_t (*finalize)(void*);
  decltype(&choose_chunk) chunk;  // since v6; before, nothing is read here
};

#define TUNER(version, initialize, answer)                   \
  extern "C" __attribute__((visibility("default")))          \
  const TunerTable<decltype(&initialize), decltype(&answer)> \
      ncclTunerPlugin_v##version = {"busbw", initialize, answer, finalize, choose_chunk}

TUNER(2, init_by_size<2>, choose_v2);
TUNER(3, init_by_size<3>, choose_v3);
TUNER(4, init_by_size<4>, choose);
TUNER(5, init_by_id<5>, choose);
TUNER(6, init_by_id<6>, choose);
